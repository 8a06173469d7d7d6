"""Charges and Lennard-Jones parameters of atoms, and the 1-4 pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import MissingParameterError
from .assign import Assignment
from .atom_values import NonbondedTypes
from .ffxml import ForceField

__all__ = ["atom_parameters", "build_nonbonded", "columns"]


def atom_parameters(field: ForceField, assignment: Assignment) -> dict[str, np.ndarray]:
    """Return each atom's parameters, (n,): "charge" (e), "sigma" (nm), "epsilon" (kJ/mol), and those of 1-4 pairs."""
    out = {name: np.zeros(len(assignment.atom_type)) for name in ("charge", "sigma", "epsilon", "sigma14", "epsilon14")}
    for template, atoms in assignment.groups:
        for k, kind in enumerate(template.types):
            values = _values(field, template, k, field.types[kind])
            for name, column in out.items():
                column[atoms[:, k]] = values[name]
    return out


def _values(field, template, k, kind):
    values = {"charge": 0.0, "sigma": 0.0, "epsilon": 0.0}
    lj = field.lennard_jones
    for section, names in (
        (field.nonbonded, ("charge",) if lj else ("charge", "sigma", "epsilon")),
        (lj, ("sigma", "epsilon")),
    ):
        if section is None:
            continue
        entry = _entry(section, kind)
        if lj is not None and section is field.nonbonded and entry and entry.get("epsilon"):
            raise MissingParameterError(
                "create_system: the NonbondedForce must have no Lennard-Jones interaction next to a LennardJonesForce, "
                f"got epsilon={entry['epsilon']} for type {kind.name!r}"
            )
        values |= _own(entry, names, template, k, kind)
        if "sigma" in names:
            values["sigma14"], values["epsilon14"] = (
                entry.get("sigma14", values["sigma"]),
                entry.get("epsilon14", values["epsilon"]),
            )
    return {"sigma14": values["sigma"], "epsilon14": values["epsilon"]} | values


def columns(
    section: NonbondedTypes, names: Sequence[str], field: ForceField, assignment: Assignment
) -> dict[str, np.ndarray]:
    """Return the values that a section gives to each atom, (n,) by name."""
    out = {name: np.zeros(len(assignment.atom_type)) for name in names}
    for template, atoms in assignment.groups:
        for k, name in enumerate(template.types):
            kind = field.types[name]
            for key, value in _own(_entry(section, kind), names, template, k, kind).items():
                out[key][atoms[:, k]] = value
    return out


def _own(entry, names, template, k, kind):
    """Values of one atom of a template: those of its type's entry, else those of the residue."""
    if entry is None:
        raise MissingParameterError(
            f"create_system: every atom type must have non-bonded parameters, got none for type {kind.name!r} "
            f"(class {kind.cls!r}; atom {template.names[k]} of residue template {template.name})"
        )
    found = {name: entry.get(name, template.attributes[k].get(name)) for name in names}
    for name, value in found.items():
        if value is None:
            raise MissingParameterError(
                f"create_system: {name} must be given by the type or the residue, got none for atom "
                f"{template.names[k]} of residue template {template.name}"
            )
    return {name: float(value) for name, value in found.items()}


def _entry(section: NonbondedTypes, kind):
    """The last entry that the type, its class or a wildcard has."""
    return next((entry for key, entry in reversed(section.by_key.items()) if key in kind.keys), None)


def build_nonbonded(
    field: ForceField,
    assignment: Assignment,
    atoms: dict[str, np.ndarray],
    pairs: np.ndarray,
    divisors: Mapping[tuple[int, int], Sequence[float]],
    **options: Any,
):
    """Return the Nonbonded potential, and the 1-4 pairs as a potential (None if there are none that act).

    `atoms` comes from `atom_parameters`; `pairs` (m, 2) are atoms three bonds apart, and `divisors`, from
    `pair_divisors`, scales some of them; `options` are those of `Nonbonded`.
    """
    from ..potentials.bonded.pair14 import pair14
    from ..potentials.nonbonded.nonbonded import Nonbonded

    q, sigma, epsilon = (atoms[name] for name in ("charge", "sigma", "epsilon"))
    sections = [s for s in (field.lennard_jones, field.nonbonded) if s is not None]
    dispersion = next((s.dispersion for s in sections if s.dispersion is not None), None)
    if dispersion is not None:
        options.setdefault("dispersion_correction", dispersion)
    coulomb14 = field.nonbonded.coulomb14 if field.nonbonded is not None else 0.0
    i, j = pairs.T
    sigma14 = 0.5 * (atoms["sigma14"][i] + atoms["sigma14"][j])
    epsilon14 = np.sqrt(atoms["epsilon14"][i] * atoms["epsilon14"][j])
    special = _exceptions(field, assignment)
    if special:
        table = _table(special, assignment, sigma, epsilon)
        nonbonded = Nonbonded(q, mixing=table, **options)
        for row, (a, b) in enumerate(zip(assignment.atom_type[i], assignment.atom_type[j])):
            if (a, b) in special:
                sigma14[row], epsilon14[row] = special[a, b]
    else:
        nonbonded = Nonbonded(q, sigma, epsilon, **options)
    product, unscaled, epsilon14 = coulomb14 * q[i] * q[j], epsilon14, sections[0].lj14 * epsilon14
    for row, pair in enumerate(np.sort(pairs, axis=1).tolist() if divisors else ()):
        if tuple(pair) in divisors and (product[row] or epsilon14[row]):
            coulomb, lj = divisors[tuple(pair)]
            product[row], epsilon14[row] = q[i[row]] * q[j[row]] / coulomb, unscaled[row] / lj
    acts = (product != 0) | (epsilon14 != 0)
    if not np.any(acts):
        return nonbonded, None
    return nonbonded, pair14(pairs[acts], charge_product=product[acts], sigma=sigma14[acts], epsilon=epsilon14[acts])


def _exceptions(field, assignment):
    """Sigma and epsilon by pair of types in use that have an NBFIX entry."""
    special: dict = {}
    for one, two, own_sigma, own_epsilon in field.nbfix:
        for a in _of_key(one, assignment):
            for b in _of_key(two, assignment):
                if special.setdefault((a, b), (own_sigma, own_epsilon)) != (own_sigma, own_epsilon):
                    raise MissingParameterError(
                        "create_system: a pair of types must have one NBFIX entry, got several for "
                        f"{assignment.types[a].name} and {assignment.types[b].name}"
                    )
                special[b, a] = special[a, b]
    return special


def _table(special, assignment, sigma, epsilon):
    """Table of pairs of types with the exceptions from mixing."""
    from ..potentials.pairs.mixing import LJTable

    _, first = np.unique(assignment.atom_type, return_index=True)  # types in use are numbered without gaps
    s = 0.5 * (sigma[first][:, None] + sigma[first])
    e = np.sqrt(epsilon[first][:, None] * epsilon[first])
    for (a, b), (own_sigma, own_epsilon) in special.items():
        s[a, b], e[a, b] = own_sigma, own_epsilon
    return LJTable.from_sigma_epsilon(assignment.atom_type, s, e)


def _of_key(key, assignment):
    return [k for k, t in enumerate(assignment.types) if key in t.keys]
