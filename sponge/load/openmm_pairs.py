"""OpenMM's CustomNonbondedForce: Lennard-Jones with coefficients by types, a compiled pair loop, or listed pairs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..codegen.expressions import Expression, parse
from ..codegen.tabulated import Tabulated
from ..errors import FileFormatError
from ..potentials.expressions.compound import ExpressionCompound
from ..potentials.expressions.expression import MOST_TYPES, ExpressionPair, pair_values
from ..potentials.expressions.tail import ExpressionTail
from ..potentials.pairs.mixing import LJTable
from ..topology import check_indices
from .openmm_custom import Form, children, exclusions, flag, parameters, tables
from .openmm_terms import OpenMMTerms

__all__ = ["read_pairs"]

_MOST_PAIRS = 3_000_000  # of a list


def read_pairs(terms: OpenMMTerms, force: ET.Element, where: str) -> bool:
    """Add the force to the terms; return True if it is periodic."""
    _, values = parameters(force, "PerParticleParameters", "Particles", (), where)
    method, n = int(force.attrib["method"]), len(children(force, "Particles"))
    if n != terms.n:
        raise FileFormatError(f"{where}: must have parameters of each of {terms.n} particles, got {n}")
    excluded = exclusions(force, n, where)
    functions, text = tables(force, where), force.attrib["energy"]
    per = [p.attrib["name"] for p in children(force, "PerParticleParameters")]
    constants = {k: v for k, v in values.items() if k not in per}
    columns = {k: values[k] for k in per}
    arity = {k: f.arity for k, f in functions.items()}
    for value in children(force, "ComputedValues"):
        parsed = parse(value.attrib["expression"], where, (*per, *constants), arity)
        columns[value.attrib["name"]] = _computed(parsed, columns | constants, functions, n, where)
    cut: dict[str, Any] = {}
    if method:
        cut["cutoff"] = float(force.attrib["cutoff"])
        if flag(force, "useSwitchingFunction", where):
            cut["switch"] = float(force.attrib["switchingDistance"])
    tail = flag(force, "useLongRangeCorrection", where) and method == 2
    terms.pair_method(where, method)
    groups = _groups(force, n, where)
    kinds, types = _types(columns, n)
    by_type = {k: kinds[:, c] for c, k in enumerate(columns)} | constants
    listed = bool(groups) or len(kinds) > MOST_TYPES
    form = Form(text, where, ("r",), pair_values({k: kinds[:, c] for c, k in enumerate(columns)}) | constants, 0, arity)
    # the loops over pairs cannot look up a table by the distance
    listed = listed or any(
        node[0] in functions and any(form.split.depends(t) for t in node[1:]) for node in form.algebra.nodes
    )
    if not listed and (table := _lennard_jones(form, types, len(kinds), functions, where)):
        terms.exclude(where, excluded)
        terms.lennard_jones(where, method, table, cut | {"dispersion_correction": tail})
        return method == 2
    if tail and len(kinds) > MOST_TYPES:
        raise FileFormatError(
            f"{where}: a long-range correction must be of at most {MOST_TYPES} kinds of particles, got {len(kinds)}"
        )
    if not listed:
        terms.expect_exclusions(where, excluded)

    def make():
        if not listed and np.array_equal(_sorted(excluded), _sorted(terms.system.exclusions)):
            return ExpressionPair(text, types, by_type, functions, **cut)
        pairs = _pairs(groups, excluded, n, where)
        both = {f"{k}{i + 1}": (k, pairs[:, i]) for k in columns for i in (0, 1)}
        return ExpressionCompound(
            text,
            pairs,
            columns | constants,
            columns=both,
            functions=functions,
            near=[(0, 1)],
            name="pair_expression",
            **cut,
        )

    terms.potential(make)
    if tail:
        own = _pairs(groups, excluded[:0], n, where) if groups else None
        terms.potential(lambda: ExpressionTail(text, types, by_type, tables=functions, pairs=own, **cut))
    return method == 2


def _sorted(pairs: np.ndarray) -> np.ndarray:
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _types(columns: dict[str, np.ndarray], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Kinds of particles that differ in some column [t, columns], and the kind of each particle [n]."""
    if not columns:
        return np.zeros((1, 0)), np.zeros(n, int)
    kinds, types = np.unique(np.stack(list(columns.values()), axis=1), axis=0, return_inverse=True)
    return kinds, types.reshape(-1)


def _computed(
    parsed: Expression, values: dict[str, Any], functions: dict[str, Tabulated], n: int, where: str
) -> np.ndarray:
    """Values of an expression for each particle."""
    found = np.array(np.broadcast_to(np.asarray(parsed(values, functions)), (n,)), np.float64)
    return check.finite(found, f"{where}: computed values", error=FileFormatError)


def _lennard_jones(
    form: Form, types: np.ndarray, t: int, functions: dict[str, Tabulated], where: str
) -> LJTable | None:
    """The coefficients by types if the energy is a sum of powers -12 and -6 of the distance."""
    powers = form.powers(form.term, (t, t), form.values, functions)
    if powers is None or not set(powers) <= {-6, -12}:
        return None
    a, b = (np.broadcast_to(powers.get(k, 0.0), (t, t)) for k in (-12, -6))
    if not (np.allclose(a, a.T, rtol=1e-9, atol=0) and np.allclose(b, b.T, rtol=1e-9, atol=0)):
        raise FileFormatError(f"{where}: the energy must be the same when the two particles change places")
    return LJTable(types, (a + a.T) / 2, -(b + b.T) / 2)


def _groups(force: ET.Element, n: int, where: str) -> list[list[np.ndarray]]:
    """The two sets of particles of each interaction group."""
    found = [
        [np.unique([int(p.attrib["index"]) for p in children(group, tag)]).astype(int) for tag in ("Set1", "Set2")]
        for group in children(force, "InteractionGroups")
    ]
    for group in found:
        check_indices(np.concatenate(group), n, f"{where}: particles of interaction groups", FileFormatError)
    return found


def _pairs(groups: list[list[np.ndarray]], excluded: np.ndarray, n: int, where: str) -> np.ndarray:
    """All pairs [m, 2], or those of interaction groups: between two sets, each pair once, in the order of the sets."""
    found = []
    for one, two in groups:
        if len(one) * len(two) > 2 * _MOST_PAIRS:
            raise FileFormatError(
                f"{where}: an interaction group must be of at most {2 * _MOST_PAIRS} pairs, got {len(one)} x {len(two)}"
            )
        i, j = (x.ravel() for x in np.meshgrid(one, two, indexing="ij"))
        twice = (i > j) & np.isin(j, one) & np.isin(i, two)
        found.append(np.stack([i, j], axis=1)[(i != j) & ~twice])
    if not groups:
        if n * (n - 1) // 2 > _MOST_PAIRS:
            raise FileFormatError(
                f"{where}: pairs that no compiled loop takes (exclusions of their own, tables of "
                f"the distance, or more than {MOST_TYPES} kinds of particles) must be at most "
                f"{_MOST_PAIRS}, got {n * (n - 1) // 2}"
            )
        found = [np.stack(np.triu_indices(n, 1), axis=1)]
    pairs = np.concatenate(found)
    key = lambda p: np.min(p, axis=1).astype(np.int64) * n + np.max(p, axis=1)
    return pairs[~np.isin(key(pairs), key(excluded))]
