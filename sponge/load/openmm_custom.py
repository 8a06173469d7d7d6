"""OpenMM's custom forces: expressions are evaluated to see which of our potentials they are, and refused otherwise.

A form is recognised by its values, not by its spelling, which changes between versions of OpenMM: coefficients are found
from a few points and confirmed at others.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

from triskele.sponge.errors import FileFormatError
from triskele.sponge.load.expressions import evaluate
from triskele.sponge.load.terms import Terms
from triskele.sponge.potentials.gb import PROBE
from triskele.sponge.potentials.gb_tables import MODELS, NECK_CUTOFF
from triskele.sponge.potentials.mixing import LJTable
from triskele.sponge.potentials.restraints import PositionRestraint
from triskele.sponge.units import COULOMB

__all__ = ["READERS"]


def _parameters(force: ET.Element, per: str, entries: str, atoms: tuple[str, ...]) -> tuple[np.ndarray, dict[str, Any]]:
    """Atoms [m, k] and values of all variables, arrays [m] of the parameters of terms and numbers of the global ones."""
    names = [p.attrib["name"] for p in _children(force, per)]
    rows = _children(force, entries)
    numbers = np.array([[float(r.attrib[a]) for a in atoms] for r in rows]).reshape(len(rows), len(atoms)).astype(int)
    values: dict[str, Any] = {
        p.attrib["name"]: float(p.attrib["default"]) for p in _children(force, "GlobalParameters")
    }
    for k, name in enumerate(names):
        values[name] = np.array([float(r.attrib[f"param{k + 1}"]) for r in rows])
    return numbers, values


def _children(force: ET.Element, tag: str) -> list[ET.Element]:
    found = force.find(tag)
    return [] if found is None else list(found)


def _same(a: Any, b: Any) -> bool:
    a, b = np.broadcast_arrays(np.asarray(a, np.float64), b)
    return bool(np.all(np.isfinite(a)) and np.allclose(a, b, rtol=1e-9, atol=1e-9 * np.max(np.abs(b), initial=1e-30)))


def _refuse(where: str, force: ET.Element, known: str) -> FileFormatError:
    return FileFormatError(f"{where}: the expression must be {known}, got {force.get('energy')!r}")


def _bond(terms: Terms, force: ET.Element, where: str) -> bool:
    """k/2 (r - r0)^2, or Coulomb and Lennard-Jones."""
    atoms, values = _parameters(force, "PerBondParameters", "Bonds", ("p1", "p2"))
    if not len(atoms):
        return False
    energy = lambda r: (
        evaluate(force.attrib["energy"], values | {"r": np.asarray(r)[:, None]}, where) + np.zeros((1, len(atoms)))
    )  # noqa: E731
    r = np.array([0.1, 0.2, 0.3, 0.15, 0.22, 0.37])
    u = energy(r)
    k = (u[0] - 2 * u[1] + u[2]) / 0.01
    slope = (u[2] - u[0]) / 0.2
    r0 = 0.2 - slope / np.where(k != 0, k, 1)
    if _same(u, 0.5 * k * (r[:, None] - r0) ** 2):
        terms.bonds(atoms, k, r0)
        return False
    basis = np.stack([1 / r, r**-6.0, r**-12.0], axis=1)
    scale = np.abs(basis).max(0)
    found = np.linalg.lstsq(basis / scale, u, rcond=None)[0] / scale[:, None]
    a, b = found[2], -found[1]
    lj = (np.abs(a) * r.min() ** -12.0 > 1e-9 * np.abs(u).max(0)) & (a > 0) & (b > 0)
    sigma = np.where(lj, (np.where(lj, a, 1) / np.where(lj, b, 1)) ** (1 / 6), 0.1)
    epsilon = np.where(lj, b * b / (4 * np.where(lj, a, 1)), 0)
    charge = np.where(np.abs(found[0]) / r.min() > 1e-9 * np.abs(u).max(0), found[0] / COULOMB, 0.0)
    x = (sigma / r[:, None]) ** 6
    if not _same(u, COULOMB * charge / r[:, None] + 4 * epsilon * (x * x - x)):
        raise _refuse(where, force, "harmonic, or Coulomb and Lennard-Jones")
    terms.pairs(atoms, charge, sigma, epsilon)
    return False


def _angle(terms: Terms, force: ET.Element, where: str) -> bool:
    """k/2 (theta - theta0)^2."""
    atoms, values = _parameters(force, "PerAngleParameters", "Angles", ("p1", "p2", "p3"))
    if len(atoms):
        x = np.array([1.0, 1.5, 2.0, 0.7, 2.4, 2.9])[:, None]
        u = evaluate(force.attrib["energy"], values | {"theta": x}, where) + np.zeros((1, len(atoms)))
        k = (u[0] - 2 * u[1] + u[2]) / 0.25
        theta0 = 1.5 - (u[2] - u[0]) / np.where(k != 0, k, 1)
        if not _same(u, 0.5 * k * (x - theta0) ** 2):
            raise _refuse(where, force, "harmonic")
        terms.angles(atoms, k, theta0)
    return False


def _torsion(terms: Terms, force: ET.Element, where: str) -> bool:
    """k/2 (theta - theta0)^2 with the difference in [-pi, pi]."""
    atoms, values = _parameters(force, "PerTorsionParameters", "Torsions", ("p1", "p2", "p3", "p4"))
    if not len(atoms):
        return False
    energy = lambda x: evaluate(force.attrib["energy"], values | {"theta": x}, where) + np.zeros((1, len(atoms)))  # noqa: E731
    check = np.linspace(-3.1, 3.1, 23)[:, None]
    u = energy(check)
    k, phi0 = np.full(len(atoms), np.nan), np.zeros(len(atoms))
    for start in (0.3, -1.5, 2.2):  # where the wrapped parabola has its kink for some, it has none for the others
        a, b, c = energy(start + np.array([-0.1, 0.0, 0.1])[:, None])
        ki = (a - 2 * b + c) / 0.01
        phi = start - (c - a) / 0.2 / np.where(ki != 0, ki, 1)
        d = check - phi
        right = np.all(
            np.abs(u - 0.5 * ki * (d - 2 * np.pi * np.rint(d / (2 * np.pi))) ** 2)
            < 1e-7 * np.abs(u).max(0, initial=1e-30),
            axis=0,
        )
        k, phi0 = np.where(right, ki, k), np.where(right, phi, phi0)
    if np.any(np.isnan(k)):
        raise _refuse(where, force, "harmonic in the torsion angle")
    terms.impropers(atoms, k, phi0)
    return False


def _external(terms: Terms, force: ET.Element, where: str) -> bool:
    """k/2 |r - r0|^2."""
    atoms, values = _parameters(force, "PerParticleParameters", "Particles", ("index",))
    if not len(atoms):
        return False

    def energy(x, y, z):
        return evaluate(force.attrib["energy"], values | {"x": x, "y": y, "z": z}, where) + np.zeros(len(atoms))

    center = energy(0.0, 0.0, 0.0)
    plus, minus = (np.stack([energy(*(s * e)) for e in np.eye(3)]) for s in (1.0, -1.0))  # [3, m]
    k = plus + minus - 2 * center
    r0 = -(plus - minus) / (2 * np.where(k != 0, k, 1))
    points = np.array([[0.3, -0.7, 1.1], [2.0, 0.1, -0.4], [-1.3, 1.7, 0.2]])
    expected = [0.5 * np.sum(k * (p[:, None] - r0) ** 2, axis=0) for p in points]
    if not _same(k, k[0]) or not _same(np.stack([energy(*p) for p in points]), np.stack(expected)):
        raise _refuse(where, force, "harmonic in x, y and z, zero at its minimum")
    terms.potential(lambda: PositionRestraint(atoms[:, 0], k[0], r0.T))
    return False


def _nonbonded(terms: Terms, force: ET.Element, where: str) -> bool:
    """Lennard-Jones with coefficients from tables by type."""
    _, values = _parameters(force, "PerParticleParameters", "Particles", ())
    names = [p.attrib["name"] for p in _children(force, "PerParticleParameters")]
    if len(names) != 1 or _children(force, "InteractionGroups") or _children(force, "ComputedValues"):
        raise _refuse(where, force, "Lennard-Jones with tables over one parameter, the type, of each particle")
    types = values[names[0]].astype(int)
    t = int(types.max()) + 1
    i, j = np.meshgrid(np.arange(t), np.arange(t), indexing="ij")
    known = (
        {k: v for k, v in values.items() if k != names[0]}
        | _tables(force, where)
        | {f"{names[0]}1": i, f"{names[0]}2": j}
    )
    r = np.array([0.25, 0.31, 0.4])
    u = np.stack([evaluate(force.attrib["energy"], known | {"r": x}, where) + np.zeros((t, t)) for x in r])
    basis = np.stack([r**-12.0, -(r**-6.0)], axis=1)
    a, b = np.linalg.solve(basis[:2], u[:2].reshape(2, -1)).reshape(2, t, t)
    if not _same(u[2], a * basis[2, 0] + b * basis[2, 1]):
        raise _refuse(where, force, "Lennard-Jones")
    options: dict[str, Any] = {"dispersion_correction": force.get("useLongRangeCorrection") == "1"}
    if force.get("useSwitchingFunction") == "1":
        options["switch"] = float(force.attrib["switchingDistance"])
    terms.lennard_jones_table(LJTable(types, (a + a.T) / 2, (b + b.T) / 2), options)
    terms.exclusions = np.concatenate(
        [
            terms.exclusions,
            np.array([[int(e.attrib["p1"]), int(e.attrib["p2"])] for e in _children(force, "Exclusions")], int).reshape(
                -1, 2
            ),
        ]
    )
    return force.get("method") == "2"


def _tables(force: ET.Element, where: str) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for function in _children(force, "Functions"):
        if function.get("type") != "Discrete2DFunction":
            raise FileFormatError(f"{where}: tables must be of type Discrete2DFunction, got {function.get('type')}")
        x, y = int(function.attrib["xsize"]), int(function.attrib["ysize"])
        grid = np.array([float(v.attrib["v"]) for v in _children(function, "Values")]).reshape(y, x).T
        tables[function.attrib["name"]] = lambda i, j, grid=grid: grid[
            np.asarray(i).astype(int), np.asarray(j).astype(int)
        ]
    return tables


# -- generalized Born ----------------------------------------------------------------------------------------------------


def _generalized_born(terms: Terms, force: ET.Element, where: str) -> bool:
    """The implicit solvents of OpenMM's own readers: HCT, OBC1, OBC2, GBn, GBn2, with or without salt and surface term."""
    _, values = _parameters(force, "PerParticleParameters", "Particles", ())
    if force.get("method") != "0":
        raise FileFormatError(f"{where}: must have no cut-off, others are not supported")
    if not {"charge", "or", "sr"} <= set(values) or _children(force, "Exclusions"):
        raise FileFormatError(
            f"{where}: must be an implicit solvent with parameters charge, or, sr and no exclusions, got {', '.join(values)}"
        )
    values = {("offset_radius" if k == "or" else k): v for k, v in values.items()}  # `or` is a word of Python
    computed = {
        c.attrib["name"]: (_renamed(c.attrib["expression"]), c.attrib["type"])
        for c in _children(force, "ComputedValues")
    }
    energies = [(_renamed(t.attrib["expression"]), t.attrib["type"]) for t in _children(force, "EnergyTerms")]
    if {k: v[1] for k, v in computed.items()} != {"I": "2", "B": "0"}:
        raise FileFormatError(f"{where}: must compute I of pairs and B of particles, got {', '.join(computed)}")
    tables = _tables(force, where)
    model = next((m for m in MODELS if _is_model(m, computed, values, tables, where)), None)
    if model is None:
        raise FileFormatError(
            f"{where}: Born radii must be those of {', '.join(MODELS)}, got I = {computed['I'][0]!r}, B = {computed['B'][0]!r}"
        )
    found: dict[str, Any] = {"surface_tension": 0.0}
    for expression, kind in energies:
        _energy_term(found, expression, kind, MODELS[model].offset, where)
    if not {"single", "pair"} <= set(found) or found.pop("single") != (pair := found.pop("pair")):
        raise FileFormatError(
            f"{where}: must have the energies of single charges and of pairs, with the same constants"
        )
    prefactor, solute, solvent, found["kappa"] = pair
    # the file's Coulomb constant may differ in its last digits from ours: dielectric constants make up for it
    found["solute_dielectric"], found["solvent_dielectric"] = (
        solute * COULOMB / prefactor,
        solvent * COULOMB / prefactor,
    )
    rho = values["offset_radius"]
    rescaling = {name: values[name] for name in ("alpha", "beta", "gamma") if name in values}
    terms.generalized_born(
        model=model,
        charges=values["charge"],
        radii=rho + MODELS[model].offset,
        scales=values["sr"] / rho,
        **rescaling,
        **found,
    )
    return False


def _renamed(expression: str) -> str:
    import re

    return re.sub(r"\bor(\d?)\b", r"offset_radius\1", expression)


def _is_model(name: str, computed: dict, values: dict, tables: dict, where: str) -> bool:
    model = MODELS[name]
    if (model.neck > 0) != ("getm0" in tables) or (name == "gbn2") != ("alpha" in values):
        return False
    # the integral, at distances from within the other sphere's shell to beyond the neck
    rho1, s2, r = 0.15, 0.12, np.array([0.2, 0.29, 0.35, 0.6, 0.9, 1.2])
    lower, upper = np.maximum(rho1, np.abs(r - s2)), r + s2
    integral = 0.5 * (
        1 / lower - 1 / upper + 0.25 * (r - s2**2 / r) * (upper**-2 - lower**-2) + 0.5 * np.log(lower / upper) / r
    )
    pair = {"r": r, "offset_radius1": rho1, "offset_radius2": 0.14, "sr2": s2, "radindex1": 0, "radindex2": 0} | tables
    if model.neck:
        d0, m0 = tables["getd0"](0, 0), tables["getm0"](0, 0)
        x2 = ((r - d0) / 0.1) ** 2
        near = r < rho1 + 0.14 + 2 * model.offset + NECK_CUTOFF
        integral = integral + np.where(near, model.neck * m0 / (1 + x2 + 0.3 * x2**3), 0)
    if not _same(evaluate(computed["I"][0], pair, where), integral):
        return False
    total = np.array([0.1, 1.0, 2.5])
    if model.rescaling is None:
        born = 1 / (1 / rho1 - total)
    else:
        a, b, c = (0.7, 0.5, 0.3) if name == "gbn2" else model.rescaling
        psi = rho1 * total
        born = 1 / (1 / rho1 - np.tanh(psi * (a - psi * (b - psi * c))) / (rho1 + model.offset))
    single = {"I": total, "offset_radius": rho1, "alpha": 0.7, "beta": 0.5, "gamma": 0.3}
    return _same(evaluate(computed["B"][0], single, where), born)


def _energy_term(found: dict, expression: str, kind: str, offset: float, where: str) -> None:
    """Recognise one energy term; its constants go to `found`."""
    known = {}
    for definition in expression.split(";")[1:]:
        name, _, value = definition.partition("=")
        if name.strip() in ("soluteDielectric", "solventDielectric", "kappa"):
            known[name.strip()] = float(value)
    solute, solvent = (known.get(k, np.nan) for k in ("soluteDielectric", "solventDielectric"))
    kappa = known.get("kappa", 0.0)
    born, q = np.array([0.1, 0.17, 0.4, 0.23]), np.array([1.0, -0.3, 0.5, 0.8])
    if kind == "0":
        values = {"charge": q, "B": born, "offset_radius": 0.14}
        got = evaluate(expression, values, where)
        radius = 0.14 + offset
        shape = (radius + PROBE) ** 2 * (radius / born) ** 6
        if _same(got, got[0] / shape[0] * shape):
            found["surface_tension"] = found["surface_tension"] + float(got[0] / shape[0])
            return
        shape = -0.5 * (1 / solute - np.exp(-kappa * born) / solvent) * q**2 / born
        if _same(got, got[0] / shape[0] * shape):
            found["single"] = (round(float(got[0] / shape[0]), 9), solute, solvent, kappa)
            return
    elif kind == "2":
        r, b2, q2 = np.array([0.2, 0.4, 1.0, 0.7]), 0.2, 0.6
        got = evaluate(expression, {"r": r, "B1": born, "B2": b2, "charge1": q, "charge2": q2}, where)
        f = np.sqrt(r**2 + born * b2 * np.exp(-(r**2) / (4 * born * b2)))
        shape = -(1 / solute - np.exp(-kappa * f) / solvent) * q * q2 / f
        if _same(got, got[0] / shape[0] * shape):
            found["pair"] = (round(float(got[0] / shape[0]), 9), solute, solvent, kappa)
            return
    raise FileFormatError(
        f"{where}: energy terms must be those of generalized Born and of a surface area, got {expression!r}"
    )


READERS = {
    "CustomBondForce": _bond,
    "CustomAngleForce": _angle,
    "CustomTorsionForce": _torsion,
    "CustomExternalForce": _external,
    "CustomNonbondedForce": _nonbonded,
    "CustomGBForce": _generalized_born,
}
