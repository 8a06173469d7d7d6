"""Lennard-Jones and Coulomb formulas over vectors, and the pair kernels composed of them.

With R = 2/r (a Newton step for it is a multiplication shorter than for 1/r), forces are written -(dU/dr)/r = g R^2, and
each form gives its g. The powers of two that this brings are absorbed in the parameters of the atoms: charges are
q sqrt(k/8) (k Coulomb's constant), sizes sigma/4 (sigma/2 with geometric mixing), depths sqrt(epsilon).

The Ewald correction to 1/r^3 is alpha^3 (erf(z) - 2 z exp(-z^2)/sqrt(pi))/z^3 with z = alpha r, a smooth, positive
function of r^2. Its fourth root is a polynomial of low degree: in float32 that takes 8 instructions, without division
or table. In float64, erfc and exp are evaluated as they are.

Kernels are generated as source, one module for each combination, because only functions that stand in a file are kept
by Numba's cache.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import erf

from triskele.core.extend import load_module

from ...engine.flags import N_FLAGS
from ...engine.program import Phase, Program
from ...neighbors import shared_list
from ...units import COULOMB
from ..pairs.formulas import force_switch
from ..pairs.loops import PairPlan
from ..pairs.source import function_source, module_source

if TYPE_CHECKING:
    from ...engine.engine import Engine

__all__ = ["PairForm", "ewald_root", "pair_gradients", "plan_pairs"]


class PairForm:
    """Source of pair functions, and the numbers that they read, for one choice of formulas."""

    def __init__(
        self,
        mixing: str,  # "lorentz_berthelot", "geometric" or "table"
        coulomb: str,  # "ewald", "reaction_field", "cutoff" or "none"
        cutoff: float,
        double: bool,
        *,
        switch: float | None = None,  # nm; switch: of Lennard-Jones energies
        modifier: str = "potential-switch",  # as of `Nonbonded`
        alpha: float = 0.0,  # 1/nm, of Ewald sums
        k_rf: float = 0.0,
        c_rf: float = 0.0,  # of the reaction field: U = k q q (1/r + k_rf r^2 - c_rf)
        dispersion_alpha: float | None = None,  # 1/nm, of LJ-PME
        table: Any = None,
    ):  # (a, b), each (t, t): U = a/r^12 - b/r^6 for each pair of types
        self.mixing, self.coulomb, self.cutoff, self.double = mixing, coulomb, cutoff, double
        self.switch, self.alpha, self.k_rf, self.c_rf, self.dispersion_alpha = (
            switch,
            alpha,
            k_rf,
            c_rf,
            dispersion_alpha,
        )
        self.modifier = modifier
        self.numbers: list[float] = []
        self.table = table
        self._number(cutoff**2), self._number(3.0)
        charge = coulomb != "none"
        self.parameters = ["charge"] * charge + (["type"] if mixing == "table" else ["size", "depth"])
        self.parameters += ["dispersion"] * (dispersion_alpha is not None)
        size = 1 if charge else 0
        start = ["inverse = two_over_r(r2, c[1])", "square = inverse * inverse"]
        lj_force, lj_energy, lj_gradient = self._lennard_jones(size)
        q_force, q_energy, q_gradient = self._coulomb() if charge else ([], [], [])
        if charge:
            force = [*start, *q_force, *lj_force, "return (g_lj + g_q) * square"]
            plain = [*start, *q_force, "return g_q * square"]
            plain_energy = [*start, *q_force, *q_energy, "return u_q, g_q * square"]
            energy = [*start, *q_force, *q_energy, *lj_force, *lj_energy, "return u_lj + u_q, (g_lj + g_q) * square"]
        else:
            force = [*start, *lj_force, "return g_lj * square"]
            plain = plain_energy = None
            energy = [*start, *lj_force, *lj_energy, "return u_lj, g_lj * square"]
        gradient = None
        if lj_gradient is not None:
            gradient = [*start, *q_gradient, *lj_force, *lj_energy, *lj_gradient]
            own = ["j[0] * phi"] * charge + [
                "by_size" if mixing == "lorentz_berthelot" else f"by_size * j[{size}]",
                f"j[{size + 1}] * by_depth",
            ]
            other = ["i[0] * phi"] * charge + [
                "by_size" if mixing == "lorentz_berthelot" else f"by_size * i[{size}]",
                f"i[{size + 1}] * by_depth",
            ]
            nothing = [self._number(0.0)] * (not charge)  # the loop sums three
            gradient.append(f"return ({', '.join(own + nothing)}), ({', '.join(other + nothing)})")
        potential = [*start, *q_gradient, "return phi"] if charge else None
        self.functions = {
            "force": force,
            "plain": plain,
            "energy": energy,
            "plain_energy": plain_energy,
            "gradient": gradient,
            "potential": potential,
        }
        self.source = self._module()

    def _number(self, value: float) -> str:
        """The expression of a constant in the generated code."""
        if value not in self.numbers:
            self.numbers.append(value)
        return f"c[{self.numbers.index(value)}]"

    def _lennard_jones(self, k):
        """Lines that set g_lj; that set u_lj; that set its derivatives by size and depth (None with a table)."""
        n = self._number
        gradient = None
        if self.mixing == "table":
            t = len(self.table[0])
            self._tables = f"simd.convert(i[{k}] * {n(float(t))} + j[{k}], np.int32)"
            # the numbers end in 12 a/2^14 and 6 b/2^8
            force = [
                f"at = {self._tables}",
                "six = square * square * square",
                "repulsion = simd.gather(table, at + np.int32(N_NUMBERS)) * six * six",
                f"attraction = simd.gather(table, at + np.int32(N_NUMBERS + {t * t})) * six",
                "g_lj = repulsion - attraction",
            ]
            energy = [f"u_lj = {n(1 / 3)} * repulsion - {n(2 / 3)} * attraction"]
        else:
            size = f"i[{k}] + j[{k}]" if self.mixing == "lorentz_berthelot" else f"i[{k}] * j[{k}]"
            ratio = "size * size * square" if self.mixing == "lorentz_berthelot" else "size * square"
            force = [
                f"size = {size}",
                f"ratio = {ratio}",
                "six = ratio * ratio * ratio",
                f"well = i[{k + 1}] * j[{k + 1}] * six",
                f"g_lj = well * (six * {n(12.0)} + {n(-6.0)})",
            ]
            energy = [f"u_lj = {n(4.0)} * well * (six + {n(-1.0)})"]
            # dU/d(ln sigma) = 4 eps (12 q^12 - 6 q^6); size is proportional to sigma, or to its square
            per_size = n(4.0 if self.mixing == "lorentz_berthelot" else 2.0)
            safe = f"simd.maximum(size, {n(1e-6)})"  # without Lennard-Jones both sizes may be 0
            gradient = [
                f"by_size = {per_size} * well * (six * {n(12.0)} + {n(-6.0)})",
                f"by_size = by_size / {safe}" if self.double else f"by_size = by_size * simd.rcp_fast({safe}, 1)",
                f"by_depth = {n(4.0)} * six * (six + {n(-1.0)})",
            ]
        if self.dispersion_alpha is not None:
            a, rc = self.dispersion_alpha, self.cutoff
            force += [
                f"d2 = r2 * {n(a * a)}",
                "gauss = simd.exp(-d2)",
                f"mesh = i[{k + 2}] * j[{k + 2}] * (square * square * square)",  # 64 c6/r^6
                f"g_lj = g_lj + {n(1.5 / 64)} * mesh * ({n(1.0)} - gauss * ({n(1.0)} + d2 * ({n(1.0)} + d2 * ({n(0.5)} "
                f"+ d2 * {n(1 / 6)}))))",
            ]
            d2 = (a * rc) ** 2
            squared = "size * size" if self.mixing == "lorentz_berthelot" else "size"
            left = (1 - np.exp(-d2) * (1 + d2 + d2 * d2 / 2)) / rc**6
            energy += [
                f"u_lj = u_lj + {n(1 / 64)} * mesh * ({n(1.0)} - gauss * ({n(1.0)} + d2 * ({n(1.0)} + d2 * {n(0.5)})))",
                f"at_cutoff = {squared} * {n(4 / rc**2)}",
                "at_cutoff = at_cutoff * at_cutoff * at_cutoff",
                f"u_lj = u_lj + {n(4.0)} * i[{k + 1}] * j[{k + 1}] * at_cutoff * ({n(1.0)} - at_cutoff)"
                f" - {n(left)} * (i[{k + 2}] * j[{k + 2}])",
            ]
            gradient = None
        if self.modifier != "potential-switch":
            return self._modified(force, gradient)
        if self.switch is not None:
            rs, rc = self.switch, self.cutoff
            scale = [
                f"r = {n(0.5)} * r2 * inverse",
                f"x = simd.maximum((r - {n(rs)}) * {n(1 / (rc - rs))}, {n(0.0)})",
                f"smooth = {n(1.0)} - x * x * x * ({n(10.0)} + x * ({n(-15.0)} + {n(6.0)} * x))",
            ]
            slope = f"{n(7.5 / (rc - rs))} * x * x * ({n(1.0)} - x) * ({n(1.0)} - x) * r"  # -S'(r) r/4
            force += energy + scale + [f"g_lj = smooth * g_lj + {slope} * u_lj"]
            energy = ["u_lj = smooth * u_lj"]
            if gradient is not None:
                gradient += ["by_size = smooth * by_size", "by_depth = smooth * by_depth"]
        return force, energy, gradient

    def _modified(self, force, gradient):
        """The lines of `_lennard_jones` with a force switch or a shift: of r^-n n + S_n stays in the force times
        r^(n+1), and 1 - L_n in the energy times r^n.
        """
        n, start, cutoff = self._number, self.switch, self.cutoff
        force = [*force[:-1], f"r3 = {n(0.5)} * r2 * r2 * inverse", "r6 = r3 * r3"]
        left = []
        for power, of in ((6, "r6"), (12, "r6 * r6")):
            if start is None:
                left.append(f"left{power} = {n(1.0)} - {of} * {n(cutoff**-power)}")
                continue
            a, b, c = force_switch(power, start, cutoff)
            if power == 6:
                force += [f"r = {n(0.5)} * r2 * inverse", f"x = simd.maximum(r - {n(start)}, {n(0.0)})", "x2 = x * x"]
            force.append(f"more{power} = {of} * r * x2 * ({n(a)} + {n(b)} * x)")
            left.append(f"left{power} = {n(1.0)} - {of} * ({n(c)} + x2 * x * ({n(a / 3)} + {n(b / 4)} * x))")
        more6, more12 = ("", "") if start is None else (" + more6", " + more12")
        if self.mixing == "table":
            scaled = [f" * ({n(1.0)} + {n(1 / p)} * more{p})" if more6 else "" for p in (12, 6)]
            force.append(f"g_lj = repulsion{scaled[0]} - attraction{scaled[1]}")
            energy = [*left, f"u_lj = {n(1 / 3)} * repulsion * left12 - {n(2 / 3)} * attraction * left6"]
            return force, energy, None
        force.append(f"g_lj = well * (six * ({n(12.0)}{more12}) - ({n(6.0)}{more6}))")
        energy = [*left, f"u_lj = {n(4.0)} * well * (six * left12 - left6)"]
        per_size, _, by_depth = gradient
        gradient = [
            per_size.replace(f"(six * {n(12.0)} + {n(-6.0)})", f"(six * left12 * {n(12.0)} + left6 * {n(-6.0)})"),
            gradient[1],
            f"by_depth = {n(4.0)} * six * (six * left12 - left6)",
        ]
        return force, energy, gradient

    def _coulomb(self):
        """Lines that set g_q; that set u_q; that set phi, the energy of unit charges."""
        n = self._number
        product = ["qq = i[0] * j[0]"]
        if self.coulomb == "cutoff":
            return [*product, "g_q = qq * inverse"], [f"u_q = {n(4.0)} * qq * inverse"], [f"phi = {n(4.0)} * inverse"]
        if self.coulomb == "reaction_field":
            phi = f"{n(4.0)} * inverse + ({n(8 * self.k_rf)} * r2 - {n(8 * self.c_rf)})"
            return (
                [*product, f"g_q = qq * (inverse - {n(4 * self.k_rf)} * r2)"],
                [f"u_q = qq * ({phi})"],
                [f"phi = {phi}"],
            )
        if self.double:
            z = f"z = {n(0.5 * self.alpha)} * r2 * inverse"
            phi = f"{n(4.0)} * inverse * simd.erfc(z)"
            force = [
                *product,
                z,
                "left = inverse * simd.erfc(z)",
                f"g_q = qq * (left + {n(4 * self.alpha / np.sqrt(np.pi))} * simd.exp(-(z * z)))",
            ]
            return force, [f"u_q = {n(4.0)} * qq * left"], [z, f"phi = {phi}"]
        root = self._polynomial(ewald_root(self.alpha, self.cutoff))
        potential = self._polynomial(ewald_root(self.alpha, self.cutoff, energy=True))
        force = [*product, f"root = {root}", "root = root * root", "g_q = qq * (inverse - r2 * (root * root))"]
        phi = [
            f"mesh_root = {potential}",
            "mesh_root = mesh_root * mesh_root",
            f"phi = {n(4.0)} * inverse - mesh_root * mesh_root",
        ]
        return force, [*phi, "u_q = qq * phi"], phi

    def _polynomial(self, coefficients) -> str:
        """A polynomial in r2 by Horner's rule."""
        text = self._number(float(coefficients[-1]))
        for x in coefficients[-2::-1]:
            text = f"simd.fma({text}, r2, {self._number(float(x))})"
        return text

    def _module(self) -> str:
        count, p = len(self.numbers), len(self.parameters)
        loads = ", ".join(f"lanes(params, {4 * p} * cluster + {4 * k})" for k in range(p))
        inverse = "two_over_r_exact" if self.double else "two_over_r"
        given = {name: lines for name, lines in self.functions.items() if lines is not None}
        kernels = [
            ("pair_forces", "force_loop", f"force, {'plain' if 'plain' in given else 'force'}"),
            ("pair_energies", "energy_loop", "energy"),
            ("pair_both", "force_energy_loop", f"energy, {'plain_energy' if 'plain' in given else 'energy'}"),
        ]
        if "gradient" in given:
            kernels.append(("pair_gradients", "gradient_loop", "gradient"))
        if "potential" in given:
            kernels.append(("pair_slopes", "slope_loop", "potential"))
        return module_source(
            "from triskele.sponge.potentials.pairs.loops import (energy_loop, force_energy_loop, force_loop,\n"
            "                                                          gradient_loop, slope_loop,\n"
            f"                                                          {inverse} as two_over_r)",
            count,
            16,
            f"def load(params, cluster, lanes):\n    return ({loads},)",
            "".join(function_source(name, lines, count, self.mixing == "table") for name, lines in given.items()),
            kernels,
        )


@cache
def ewald_root(alpha: float, cutoff: float, energy: bool = False) -> np.ndarray:
    """Coefficients in r^2 of the fourth root of twice the Ewald correction to 1/r^3, for r up to the cut-off.

    With `energy`, of the fourth root of 8 erf(alpha r)/r. The degree is the lowest with which the correction over
    alpha^3 is right to 1e-6, or erf(z)/z to 2e-7: 6 at OpenMM's and GROMACS's default tolerances. A fit by least
    squares, reweighted towards equal errors.
    """
    largest = (alpha * cutoff) ** 2
    x = np.maximum((0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 401))) * largest, 1e-12)
    z = np.sqrt(x)
    if energy:
        exact, scale, enough = erf(z) / z, 8 * alpha, 2e-7
    else:
        series = (4 / 3 - x * (4 / 5 - x * (2 / 7 - x * (2 / 27 - x / 66)))) / np.sqrt(np.pi)
        exact = np.where(x < 0.03, series, erf(z) / z**3 - 2 / np.sqrt(np.pi) * np.exp(-x) / x)
        scale, enough = 2 * alpha**3, 1e-6
    root, slope = exact**0.25, 4 * exact**0.75
    for degree in range(4, 16):
        powers = np.polynomial.chebyshev.chebvander(2 * x / largest - 1, degree)
        weight, least, best = slope.copy(), np.inf, None
        for _ in range(40):
            fitted = np.linalg.lstsq(powers * weight[:, None], root * weight, rcond=None)[0]
            error = np.abs((powers @ fitted) ** 4 - exact)
            if error.max() < least:
                least, best = error.max(), fitted
            weight *= (error / error.max() + 0.02) ** 0.15
        if least < enough:
            break
    coefficients = np.polynomial.Chebyshev(best, [0, largest / alpha**2]).convert(kind=np.polynomial.Polynomial).coef
    return coefficients * scale**0.25


def plan_pairs(
    engine: Engine,
    form: PairForm,
    *,  # with double = (engine.precision == "double")
    charges: np.ndarray | None = None,
    sigmas: np.ndarray | None = None,  # (n,) e, (n,) nm
    epsilons: np.ndarray | None = None,
    types: np.ndarray | None = None,
) -> PairPlan:  # (n,) kJ/mol
    """Return the plan of Lennard-Jones and Coulomb pairs within the cut-off; excluded pairs are left out."""
    neighbors = shared_list(engine, form.cutoff)
    if form.mixing == "table":
        has_lj = np.ones(engine.n, bool)
    else:
        has_lj = (np.asarray(epsilons) != 0) & (np.asarray(sigmas) != 0)
    if form.dispersion_alpha is None and form.coulomb != "none":
        neighbors.has_lj[:] = has_lj
    module = load_module(form.source, "pairs")
    numbers = list(form.numbers)
    if form.mixing == "table":
        a, b = form.table
        numbers += [*np.ravel(a * (12 / 2**14)), *np.ravel(b * (6 / 2**8))]
    return PairPlan(
        engine,
        neighbors,
        module.pair_forces,
        module.pair_energies,
        pair_values(form, charges, sigmas, epsilons, types),
        numbers,
        module.pair_both,
    )


def pair_values(form: PairForm, charges=None, sigmas=None, epsilons=None, types=None) -> np.ndarray:
    """Parameters of the atoms as the kernels of `form` take them [n, p]."""
    lorentz = form.mixing == "lorentz_berthelot"
    columns = {
        "charge": lambda: np.sqrt(COULOMB / 8) * charges,
        "size": lambda: sigmas / (4 if lorentz else 2),
        "depth": lambda: np.sqrt(epsilons),
        "type": lambda: np.asarray(types, float),
        "dispersion": lambda: 2 * sigmas**3 * np.sqrt(epsilons),
    }
    return np.stack([columns[name]() for name in form.parameters], 1)


def pair_gradients(
    engine: Engine,
    form: PairForm,
    plan: PairPlan,  # without a table and LJ-PME; from `plan_pairs`
    charges: np.ndarray | None = None,
    sigmas: np.ndarray | None = None,
    epsilons: np.ndarray | None = None,
    types: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Return derivatives (n,) of the energy by "charges" (if the form has them), "sigmas" and "epsilons" of all atoms.

    The engine's list and positions are those of its last `compute`. The derivative by an epsilon of 0, which does not
    exist, is 0.
    """
    if form.functions["gradient"] is None:
        raise ValueError("pair_gradients: tables and LJ-PME have none, differentiate `energy_function` instead")
    phases = plan.gradient_phases(load_module(form.source, "pairs").pair_gradients)
    Program([Phase(tasks) for tasks in phases], np.zeros(N_FLAGS, np.int64)).run(1)
    sums = plan.gradient_sums[shared_list(engine, form.cutoff).slots]
    found = {}
    for k, name in enumerate(form.parameters):
        if name == "charge":
            found["charges"] = np.sqrt(COULOMB / 8) * sums[:, k]
        elif name == "size":
            found["sigmas"] = sums[:, k] / (4 if form.mixing == "lorentz_berthelot" else 2)
        else:
            found["epsilons"] = np.divide(
                0.5 * sums[:, k], np.sqrt(epsilons), out=np.zeros(engine.n), where=np.asarray(epsilons) > 0
            )
    return found
