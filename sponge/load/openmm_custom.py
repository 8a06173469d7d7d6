"""OpenMM's custom forces: an expression in the canonical form of one of our potentials becomes it, others are compiled.

Forms are recognized symbolically (see `expressions`), never by values at points. An expression that is not recognized
is compiled as it is; forces that act on other things than bonds, angles, torsions, single particles and pairs are
refused.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..codegen.algebra import Algebra, Term
from ..codegen.expressions import canonical, parse
from ..codegen.tabulated import Tabulated
from ..errors import FileFormatError
from ..potentials.expressions.expression import ExpressionExternal, ExpressionTerm, Split
from ..potentials.pairs.mixing import sigma_epsilon
from ..potentials.restraints import PositionRestraint
from ..topology import check_indices
from ..units import COULOMB
from .openmm_terms import OpenMMTerms

__all__ = ["READERS", "Form", "children", "exclusions", "flag", "global_parameters", "parameters", "tables"]


def children(force: ET.Element, tag: str) -> list[ET.Element]:
    """The entries of a section; empty if the section is missing."""
    found = force.find(tag)
    return [] if found is None else list(found)


def flag(element: ET.Element, name: str, where: str, default: str = "0") -> bool:
    """Return True if an attribute is 1, and False if it is 0; it must be one of them."""
    value = check.choice(element.get(name, default), ("0", "1"), f"{where}: {name}", error=FileFormatError)
    return value == "1"


def parameters(
    force: ET.Element, per: str, entries: str, atoms: tuple[str, ...], where: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """Atoms [m, k] and values of all variables, arrays [m] of the parameters of terms and numbers of the global
    ones.
    """
    names = [p.attrib["name"] for p in children(force, per)]
    rows = children(force, entries)
    numbers = np.array([[float(r.attrib[a]) for a in atoms] for r in rows]).reshape(len(rows), len(atoms)).astype(int)
    values = global_parameters(force, where)
    for k, name in enumerate(names):
        values[name] = check.finite(
            [float(r.attrib[f"param{k + 1}"]) for r in rows], f"{where}: parameter {name}", error=FileFormatError
        )
    return numbers, values


def exclusions(force: ET.Element, n: int, where: str) -> np.ndarray:
    """Pairs of the `n` particles that the force leaves out, (m, 2)."""
    found = np.array([[int(e.attrib["p1"]), int(e.attrib["p2"])] for e in children(force, "Exclusions")], int)
    check_indices(found, n, f"{where}: excluded particles", FileFormatError)
    return found.reshape(-1, 2)


def global_parameters(force: ET.Element, where: str) -> dict[str, Any]:
    """Defaults of the global parameters."""
    values = {p.attrib["name"]: float(p.attrib["default"]) for p in children(force, "GlobalParameters")}
    for name, value in values.items():
        check.finite(value, f"{where}: parameter {name}", error=FileFormatError)
    return values


def tables(force: ET.Element, where: str) -> dict[str, Tabulated]:
    """Tabulated functions by name."""
    found: dict[str, Tabulated] = {}
    for function in children(force, "Functions"):
        name, kind = function.get("name", ""), function.get("type", "")
        values = np.array([float(v.attrib["v"]) for v in children(function, "Values")])
        axes = {f"{style}{d}DFunction": "xyz"[:d] for style in ("Discrete", "Continuous") for d in (1, 2, 3)}.get(kind)
        if axes is None:
            raise FileFormatError(
                f"{where}: tabulated functions must be Discrete1DFunction to Continuous3DFunction, got {kind} {name!r}"
            )
        if len(axes) > 1:
            sizes = [int(function.attrib[f"{axis}size"]) for axis in axes]
            values = np.ascontiguousarray(values.reshape(sizes[::-1]).T)  # the first axis runs fastest in the file
        ranges = None
        if kind.startswith("Continuous"):
            ends = [("min", "max")] if len(axes) == 1 else [(f"{axis}min", f"{axis}max") for axis in axes]
            ranges = [(float(function.attrib[low]), float(function.attrib[high])) for low, high in ends]
        try:
            found[name] = Tabulated(values, ranges, flag(function, "periodic", where))
        except ValueError as error:
            raise FileFormatError(f"{where}: table {name!r}: {error}") from None
    return found


class Form:
    """The canonical form of an expression as a function of some variables; the rest are coefficients with values."""

    def __init__(
        self,
        text: str,
        where: str,
        variables: tuple[str, ...],
        values: dict[str, Any],
        rows: int,
        functions: dict[str, int] | None = None,
    ):
        self.algebra, self.values, self.rows = Algebra(), values, rows
        self.split = Split(self.algebra, *variables)
        parsed = parse(text, where, (*variables, *values), functions)
        self.term = canonical(parsed, self.algebra)

    def value(self, term: Term) -> np.ndarray:
        """The value of a coefficient for each of the rows."""
        return np.broadcast_to(self.split.value(term, self.values), (self.rows,))

    def square(self, term: Term) -> tuple[np.ndarray, Term] | None:
        """(c, x) if the term is c x^2 with a coefficient c."""
        free, moving = self.split.parts(term)
        if len(moving) != 1 or moving[0][1] != 2:
            return None
        return self.value(free), Term(1.0, ((moving[0][0], 1),))

    def addends(self, term: Term) -> list[Term]:
        """The terms of a sum; else the term alone."""
        kind, *inner = self.algebra.nodes[term.factors[0][0]] if term.factors else ("",)
        return (
            inner
            if kind == "sum" and term.factors[0][1] == 1 and len(term.factors) == 1 and term.number == 1
            else [term]
        )

    def linear(self, term: Term) -> tuple[str, np.ndarray, np.ndarray] | None:
        """(v, a, b) if the term is a v + b, with coefficients a and b, of one variable v."""
        slopes: list[tuple[str, Term]] = []
        rest: list[Term] = []
        for t in self.addends(term):
            free, moving = self.split.parts(t)
            if not moving:
                rest.append(t)
            elif len(moving) == 1 and moving[0][1] == 1 and self.algebra.nodes[moving[0][0]][0] == "input":
                slopes.append((self.algebra.nodes[moving[0][0]][1], free))
            else:
                return None
        if len(slopes) != 1:
            return None
        zero = np.zeros(self.rows)
        return slopes[0][0], self.value(slopes[0][1]), sum((self.value(t) for t in rest), zero)

    def spring(self, term: Term) -> tuple[str, np.ndarray, np.ndarray] | None:
        """(v, k, v0) if the term is k/2 (v - v0)^2."""
        squared = self.square(term)
        line = None if squared is None else self.linear(squared[1])
        if squared is None or line is None or np.any(line[1] == 0):
            return None
        variable, a, b = line
        return variable, 2 * squared[0] * a * a, -b / a

    def powers(self, term: Term, shape: Any, values: Any, found_tables: Any = None) -> dict[int, np.ndarray] | None:
        """Coefficients by power of the variable if the term is a sum of its whole powers."""
        free, moving = self.split.parts(term)
        total: dict[int, np.ndarray] = {0: np.broadcast_to(self.split.value(free, values, found_tables), shape)}
        for node, n in moving:
            kind, *inner = self.algebra.nodes[node]
            if kind == "input":
                factor: dict[int, Any] = {n: 1.0}
            elif kind == "sum" and 0 < n <= 4:
                parts = [self.powers(t, shape, values, found_tables) for t in inner]
                if any(p is None for p in parts):
                    return None
                once: dict[int, Any] = {}
                for part in parts:
                    for k, c in (part or {}).items():
                        once[k] = once.get(k, 0) + c
                factor = {0: 1.0}
                for _ in range(n):
                    factor = _product(factor, once)
            else:
                return None
            total = _product(total, factor)
        return {k: c for k, c in total.items() if np.any(c != 0)}


def _product(a: dict[int, Any], b: dict[int, Any]) -> dict[int, Any]:
    out: dict[int, Any] = {}
    for j, x in a.items():
        for k, y in b.items():
            out[j + k] = out.get(j + k, 0) + x * y
    return out


# -- terms: bonds, angles, torsions, external fields -------------------------------------------------------------------


def _bond(terms: OpenMMTerms, force: ET.Element, where: str) -> None:
    """Harmonic, Coulomb and Lennard-Jones, or compiled."""
    atoms, values = parameters(force, "PerBondParameters", "Bonds", ("p1", "p2"), where)
    m = len(atoms)
    form = Form(force.attrib["energy"], where, ("r",), values, m)
    if not m:
        return
    spring = form.spring(form.term)
    if spring is not None:
        terms.bonds(atoms, spring[1], spring[2])
        return
    powers = form.powers(form.term, (m,), values)
    if powers is not None and set(powers) <= {-1, -6, -12}:
        charge, b, a = (np.broadcast_to(powers.get(k, 0.0), (m,)) for k in (-1, -6, -12))
        if np.all((a > 0) & (b < 0) | (a == 0) & (b == 0)):
            terms.pairs(atoms, charge / COULOMB, *sigma_epsilon(a, -b))
            return
    _compiled(terms, "bond", force, atoms, values)


def _angle(terms: OpenMMTerms, force: ET.Element, where: str) -> None:
    """Harmonic, or compiled."""
    atoms, values = parameters(force, "PerAngleParameters", "Angles", ("p1", "p2", "p3"), where)
    form = Form(force.attrib["energy"], where, ("theta",), values, len(atoms))
    spring = form.spring(form.term) if len(atoms) else None
    if spring is not None:
        terms.angles(atoms, spring[1], spring[2])
    else:
        _compiled(terms, "angle", force, atoms, values)


def _torsion(terms: OpenMMTerms, force: ET.Element, where: str) -> None:
    """Harmonic in the difference to an angle, or compiled."""
    atoms, values = parameters(force, "PerTorsionParameters", "Torsions", ("p1", "p2", "p3", "p4"), where)
    form = Form(force.attrib["energy"], where, ("theta",), values, len(atoms))
    wrapped = _wrapped_spring(form) if len(atoms) else None
    if wrapped is not None:
        terms.impropers(atoms, *wrapped)
    else:
        _compiled(terms, "torsion", force, atoms, values)


def _wrapped_spring(form: Form) -> tuple[np.ndarray, np.ndarray] | None:
    """(k, theta0) of k/2 min(d, 2 pi - d)^2 with d = |theta - theta0|, pi to ten digits as force fields write it."""
    squared = form.square(form.term)
    kind, *ends = form.algebra.nodes[squared[1].factors[0][0]] if squared else ("",)
    if squared is None or kind != "min":
        return None
    for near, far in (ends, ends[::-1]):
        inner: tuple = form.algebra.nodes[near.factors[0][0]] if near.factors else ("",)
        turn = form.algebra.add(far, near)
        if inner[0] == "abs" and near.number == 1 and len(near.factors) == 1 and not turn.factors:
            line = form.linear(inner[1])
            close = abs(turn.number - 2 * np.pi) < 1e-9
            if line is not None and close and np.all(np.abs(line[1]) == 1) and np.all(np.abs(line[2]) <= np.pi):
                return 2 * squared[0], -line[2] / line[1]
    return None


def _compiled(terms: OpenMMTerms, kind: str, force: ET.Element, atoms: np.ndarray, values: dict[str, Any]) -> None:
    terms.expression(lambda *a: ExpressionTerm(kind, force.attrib["energy"], *a), kind, atoms, values)


def _external(terms: OpenMMTerms, force: ET.Element, where: str) -> bool:
    """k/2 |r - r0|^2, or compiled; periodic if it takes distances of nearest images."""
    atoms, values = parameters(force, "PerParticleParameters", "Particles", ("index",), where)
    form = Form(force.attrib["energy"], where, ("x", "y", "z"), values, len(atoms), {"periodicdistance": 6})
    periodic = any(node[0] == "periodicdistance" for node in form.algebra.nodes)
    if not len(atoms):
        return periodic
    spring = _nearest_spring(form) if periodic else _plain_spring(form)
    field = lambda: ExpressionExternal(force.attrib["energy"], atoms[:, 0], values)
    restraint = None if spring is None else lambda: PositionRestraint(atoms[:, 0], *spring)
    # our restraint takes the nearest image in a box, which a plain square of differences does not
    terms.restraint(restraint or field, restraint if restraint and periodic else field)
    return periodic


def _plain_spring(form: Form) -> tuple[np.ndarray, np.ndarray] | None:
    """(k, reference) of k/2 ((x-x0)^2 + (y-y0)^2 + (z-z0)^2)."""
    free, moving = form.split.parts(form.term)
    whole = len(moving) == 1 and moving[0][1] == 1  # a sum may have its common factor taken out
    inner = form.addends(Term(1.0, tuple(moving))) if whole else [form.term]
    scale = form.value(free) if whole else np.ones(form.rows)
    springs = [form.spring(t) for t in inner]
    if any(s is None for s in springs) or sorted(s[0] for s in springs if s) != ["x", "y", "z"]:
        return None
    by_axis = {s[0]: s for s in springs if s}
    k = [scale * by_axis[v][1] for v in "xyz"]
    if np.any(k[0] != k[1]) or np.any(k[0] != k[2]):
        return None
    return k[0], np.stack([by_axis[v][2] for v in "xyz"], axis=1)


def _nearest_spring(form: Form) -> tuple[np.ndarray, np.ndarray] | None:
    """(k, reference) of k/2 periodicdistance(x, y, z, x0, y0, z0)^2."""
    squared = form.square(form.term)
    kind, *ends = form.algebra.nodes[squared[1].factors[0][0]] if squared else ("",)
    if squared is None or kind != "periodicdistance":
        return None
    if ends[:3] != [form.algebra.node("input", v) for v in "xyz"] or any(form.split.depends(t) for t in ends[3:]):
        return None
    return 2 * squared[0], np.stack([form.value(t) for t in ends[3:]], axis=1)


READERS = {
    "CustomBondForce": _bond,
    "CustomAngleForce": _angle,
    "CustomTorsionForce": _torsion,
    "CustomExternalForce": _external,
}
