"""Nonbonded interactions as styles of LAMMPS; special_bonds, which scale pairs of one, two and three bonds apart."""

from __future__ import annotations

import numpy as np

from ..potentials.bonded.pair14 import pair14
from ..topology import graph_distances
from ..units import angstrom
from .amber_pairs import EXACT, charge_scaling
from .parts import Parts, number

__all__ = ["WEIGHTED", "Pairs", "pair_style"]

WEIGHTED = "lj/charmm/coul/charmm"

_FAR = 1000.0  # A: without a cut-off, and without a box, this reaches all pairs, or twice the extent of larger systems


class Pairs:
    """Factors of special_bonds; 1-4 pairs that one factor does not give are those of dihedral_style charmm.

    Attributes
    ----------
    lj, coulomb : float
        Factors of pairs three bonds apart; those of nearer pairs are 0.
    weights : (m,) float64, optional
        Of each 1-4 pair with parameters of its own, by which dihedral_style charmm scales them and its charges.
    """

    def __init__(self, parts: Parts, bonds: np.ndarray):
        self.parts = parts
        one, two, three = graph_distances(bonds, parts.system.n)
        free, scaled = self._check_excluded(np.concatenate([one, two]), three)
        product, a14, b14 = np.where(scaled >= 0, self._own()[:, scaled], 0.0)
        plain = parts.nonbonded.params["charges"][three].prod(1)
        a, b = parts.pair_parameters(*three.T)
        coulomb = _factor(np.where(free, plain, product), plain, 1e-9)
        lj = _factor(np.where(free, b, b14), b, EXACT)
        self.weights: np.ndarray | None = None
        if coulomb is None or lj is None or not np.allclose(np.where(free, a, a14), lj * a, EXACT, 0):
            if free.any():
                raise parts.refusal(parts.nonbonded, "some pairs three bonds apart that are excluded, and some not,")
            self.weights, coulomb, lj = 1 / charge_scaling(parts), 0.0, 0.0
        self.coulomb, self.lj = coulomb, lj

    def _own(self) -> np.ndarray:
        """Product of charges, C12 and C6 of the 1-4 pairs, (3, m + 1), the last of which is none."""
        product, sigma, epsilon = np.concatenate([self.parts.take(pair14)[1], [[0.0, 1.0, 0.0]]]).T
        return np.stack([product, 4 * epsilon * sigma**12, 4 * epsilon * sigma**6])

    def _check_excluded(self, near: np.ndarray, three: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which pairs three bonds apart are not excluded, and which 1-4 pair each is, or -1; others are refused."""
        system, parts = self.parts.system, self.parts
        key = np.array([system.n, 1])
        third, excluded = three.astype(np.int64) @ key, system.exclusions.astype(np.int64) @ key
        wrong = np.setdiff1d(np.setxor1d(np.concatenate([near.astype(np.int64) @ key, third]), excluded), third)
        if len(wrong):
            pair = " and ".join(map(system.topology.describe, divmod(int(wrong[0]), system.n)))
            raise ValueError(
                "write_lammps: excluded pairs must be all those of one or two bonds, and of three at most, which is "
                f"what special_bonds can say, not so for {pair}"
            )
        own = np.sort(parts.take(pair14)[0], axis=1).astype(np.int64) @ key
        if len(np.unique(own)) < len(own) or not np.isin(own, np.intersect1d(third, excluded)).all():
            potential = next(p for p in system.potentials if type(p) is pair14)
            raise parts.refusal(potential, "pairs that are not excluded, three bonds apart and listed once,")
        order = np.argsort(own)
        at = np.append(order, -1)[np.searchsorted(own, third, sorter=order)]
        return ~np.isin(third, excluded), np.where(np.isin(third, own), at, -1)


def _factor(values: np.ndarray, of: np.ndarray, rtol: float) -> float | None:
    """The factor by which all `values` are those `of` other pairs; None if there is none."""
    some = of != 0
    if not some.any():
        return None if np.any(values != 0) else 1.0
    factor = float(np.median(values[some] / of[some]))
    factor = round(factor, 6) if abs(factor - round(factor, 6)) < rtol else round(factor, 14)
    return factor if np.allclose(values, factor * of, rtol, 0) else None


def pair_style(parts: Parts, weighted: bool) -> tuple[dict[str, str], list[str]]:
    """Styles by name with their arguments, Lennard-Jones first; and commands for the mesh and the tail."""
    p = parts.nonbonded
    form = p.form(parts.box)
    extent = float(np.linalg.norm(np.ptp(parts.positions, axis=0))) / angstrom
    cut = number(round(p.cutoff / angstrom, 12) if p.method != "none" else max(_FAR, 2 * extent))
    if p.method == "none" and parts.box is not None:
        raise parts.refusal(p, "method 'none' in a periodic box")
    if p.method in ("reaction_field", "ljpme"):
        raise parts.refusal(p, f"method {p.method!r}")
    if p.modifier != "potential-switch" and p.method != "none":
        raise parts.refusal(p, f"modifier {p.modifier!r}")
    long = p.method in ("pme", "ewald")
    coulomb = "coul/long" if long else "coul/cut"
    commands = ["neighbor 2.0 nsq"] if p.method == "none" else []  # bins must not be larger than the molecule
    if form.dispersion:
        commands.append("pair_modify tail yes")
    if long:
        commands += [
            "pair_modify table 0",
            f"kspace_style {'pppm' if p.method == 'pme' else 'ewald'} {number(p.tolerance)}",
        ]
        commands.append(f"kspace_modify gewald {number(form.alpha * angstrom)}")
    if p.method == "ewald":  # ours are below these numbers
        commands.append(f"kspace_modify kmax/ewald {' '.join(str(k - 1) for k in form.wave_vectors)}")
    if p.method == "pme":
        commands.append(f"kspace_modify mesh {' '.join(map(str, form.grid))} order {form.order}")
    if p.switch is not None and p.method != "none":
        if form.dispersion:
            raise parts.refusal(p, "dispersion_correction with a switch")
        styles = {"lj/mdf": f"lj/mdf {number(round(p.switch / angstrom, 12))} {cut}", coulomb: f"{coulomb} {cut}"}
    else:
        styles = {f"lj/cut/{coulomb}": f"lj/cut/{coulomb} {cut}"}
    if weighted:  # dihedral_style charmm takes its parameters from this style, which reaches no other pair
        styles[WEIGHTED] = f"{WEIGHTED} 0.0001 0.0002"
    return styles, commands
