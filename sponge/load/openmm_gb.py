"""OpenMM's CustomGBForce: the implicit solvents HCT, OBC1, OBC2, GBn and GBn2, and expressions that are compiled."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

from ..codegen.algebra import Algebra, Term
from ..codegen.expressions import canonical, parse
from ..codegen.tabulated import Tabulated
from ..errors import FileFormatError
from ..potentials.expressions.particle_values import ExpressionGB
from ..potentials.gb.gb import PROBE
from ..potentials.gb.tables import MODELS, NECK_CUTOFF, Model, neck_tables
from ..units import COULOMB
from .openmm_custom import children, parameters, tables
from .openmm_terms import OpenMMTerms

__all__ = ["read_generalized_born"]

_KINDS = {"0": "single", "1": "pair", "2": "every pair"}

# the integral over the other sphere, as versions of OpenMM have written it
_SHELL = "0.5*(1/L-1/U+0.25*(r-sr2^2/r)*(1/(U^2)-1/(L^2))+0.5*log(L/U)/r{})"
_RANGE = "; U=r+sr2; L=max(or1, D); D=abs(r-sr2)"
_INSIDE = "; C=2*(1/or1-1/L)*step(sr2-r-or1)"  # an atom within the other sphere
_INTEGRALS = (
    f"select(step(r+sr2-or1), {_SHELL.format('')}, 0){_RANGE}",
    f"step(r+sr2-or1)*{_SHELL.format('')}{_RANGE}",
    f"step(r+sr2-or1)*{_SHELL.format('+C')}{_INSIDE}{_RANGE}",
)
_NECK = (
    "({}) + {!r}*step(or1+{!r}+or2+{!r}+{!r}-r)*getm0(radindex1, radindex2)"
    "/(1+100*(r-getd0(radindex1, radindex2))^2+300000*(r-getd0(radindex1, radindex2))^6)"
)


def read_generalized_born(terms: OpenMMTerms, force: ET.Element, where: str) -> bool:
    """Add the force to the terms, as an implicit solvent if it is one; return True if it is periodic."""
    try:
        _implicit_solvent(terms, force, where)
    except FileFormatError:
        _compiled(terms, force, where)
    return force.attrib["method"] == "2"


def _compiled(terms: OpenMMTerms, force: ET.Element, where: str) -> None:
    """The expressions as they are."""
    _, params = parameters(force, "PerParticleParameters", "Particles", (), where)
    values = [
        (v.attrib["name"], v.attrib["expression"], _KINDS[v.attrib["type"]]) for v in children(force, "ComputedValues")
    ]
    energies = [(v.attrib["expression"], _KINDS[v.attrib["type"]]) for v in children(force, "EnergyTerms")]
    excluded = [[int(e.attrib["p1"]), int(e.attrib["p2"])] for e in children(force, "Exclusions")]
    method = int(force.attrib["method"])
    terms.pair_method(where, method)
    potential = ExpressionGB(
        values, energies, params, tables(force, where), excluded, float(force.attrib["cutoff"]) if method else None
    )
    terms.potential(lambda: potential)


def _implicit_solvent(terms: OpenMMTerms, force: ET.Element, where: str) -> None:
    """Add an implicit solvent, with or without salt and surface term; raise for other expressions."""
    _, values = parameters(force, "PerParticleParameters", "Particles", (), where)
    names = [p.attrib["name"] for p in children(force, "PerParticleParameters")]
    if not {"charge", "or", "sr"} <= set(names) or set(values) != set(names) or children(force, "Exclusions"):
        raise FileFormatError(
            f"{where}: must be an implicit solvent with parameters charge, or, sr, no global parameters and no "
            f"exclusions, got {', '.join(values)}"
        )
    computed = {c.attrib["name"]: (c.attrib["expression"], c.attrib["type"]) for c in children(force, "ComputedValues")}
    if {k: v[1] for k, v in computed.items()} != {"I": "2", "B": "0"}:
        raise FileFormatError(f"{where}: must compute I of pairs and B of particles, got {', '.join(computed)}")
    model = next((m for m in MODELS if _is_model(MODELS[m], computed, names, where)), None)
    if model is None:
        raise FileFormatError(
            f"{where}: Born radii must be those of {', '.join(MODELS)}, got I = {computed['I'][0]!r}, B = "
            f"{computed['B'][0]!r}"
        )
    offset, rho = MODELS[model].offset, values["or"]
    if MODELS[model].neck:
        _check_necks(tables(force, where), rho + offset, values["radindex"], where)
    found: dict[str, Any] = {"surface_tension": 0.0}
    cutoff = float(force.attrib["cutoff"]) if force.attrib["method"] != "0" else None
    for term in children(force, "EnergyTerms"):
        _energy_term(found, term.attrib["expression"], term.attrib["type"], offset, cutoff, where)
    if not {"single", "pair"} <= set(found) or found.pop("single") != (pair := found.pop("pair")):
        raise FileFormatError(
            f"{where}: must have the energies of single charges and of pairs, with the same constants, each once"
        )
    prefactor, solute, solvent, found["kappa"] = pair
    # the file's Coulomb constant may differ in its last digits from ours: dielectric constants make up for it
    dielectrics = {
        "solute_dielectric": solute * COULOMB / prefactor,
        "solvent_dielectric": solvent * COULOMB / prefactor,
    }
    rescaling = {name: values[name] for name in ("alpha", "beta", "gamma") if name in values}
    terms.pair_method(where, int(force.attrib["method"]))
    terms.generalized_born(
        model=model,
        cutoff=cutoff,
        charges=values["charge"],
        radii=rho + offset,
        scales=values["sr"] / rho,
        **dielectrics,
        **rescaling,
        **found,
    )


def _same(one: str, other: str, names: list[str], where: str) -> bool:
    """Return True if two expressions are equal up to the laws of sums, products and powers."""
    algebra, arity = Algebra(), {"getd0": 2, "getm0": 2}
    a, b = (canonical(parse(text, where, names, arity), algebra) for text in (one, other))
    return a == b


def _is_model(model: Model, computed: dict, names: list[str], where: str) -> bool:
    pairs = ["r", *(f"{n}{k}" for n in names for k in (1, 2))]
    if bool(model.neck) != ("radindex" in names):
        return False
    for integral in _INTEGRALS:
        first, *rest = integral.split(";")
        if model.neck:
            first = _NECK.format(first, model.neck, model.offset, model.offset, NECK_CUTOFF)
        if _same(computed["I"][0], ";".join([first, *rest]), pairs, where):
            break
    else:
        return False
    if model.rescaling is None:
        born = "1/(1/or-I)"
    else:
        # the rescaling of GBn2 is that of each atom
        a, b, c = ("alpha", "beta", "gamma") if "alpha" in names else model.rescaling
        born = f"1/(1/or-tanh({a}*psi-{b}*psi^2+{c}*psi^3)/(or+{model.offset!r})); psi=I*or"
    return _same(computed["B"][0], born, ["I", *names], where)


def _check_necks(found: dict[str, Tabulated], radii: np.ndarray, index: np.ndarray, where: str) -> None:
    """Raise unless the tables of the file are those of the model for the radii of the atoms."""
    at = np.clip((radii - 0.1) / 0.005, 0, 20)
    hats = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(21)))
    kinds, first = np.unique(index.astype(int), return_index=True)
    if np.abs(radii - radii[first][np.searchsorted(kinds, index.astype(int))]).max(initial=0) > 1e-9:
        raise FileFormatError(f"{where}: particles of one radindex must have one radius")
    for name, table in zip(("getd0", "getm0"), neck_tables()):
        expected = hats[first] @ table @ hats[first].T
        if not np.allclose(found[name].values[np.ix_(kinds, kinds)], expected, rtol=1e-5, atol=1e-9):
            raise FileFormatError(f"{where}: table {name} must be that of the model, got other values")


def _energy_term(found: dict, expression: str, kind: str, offset: float, cutoff: float | None, where: str) -> None:
    """Recognize one energy term; its constants go to `found`."""
    inverse = "1/f" if cutoff is None else f"(1/f-{1 / cutoff!r})"
    known = {}
    for definition in expression.split(";")[1:]:
        name, _, value = definition.partition("=")
        if name.strip() in ("soluteDielectric", "solventDielectric", "kappa"):
            known[name.strip()] = parse(value, where, ())({})
    solute, solvent, kappa = known.get("soluteDielectric"), known.get("solventDielectric"), known.get("kappa", 0.0)
    names = {"0": ["charge", "B", "or"], "2": ["r", "B1", "B2", "charge1", "charge2"]}.get(kind, [])
    algebra = Algebra()
    term = canonical(parse(expression, where, [*names, "sr", "alpha", "beta", "gamma"]), algebra)

    def factor(text: str) -> float | None:
        """The number by which the term is a multiple of an expression."""
        other: Term = canonical(parse(text, where, names), algebra)
        return term.number / other.number if term.factors == other.factors else None

    screened = f"(1/{solute!r}-exp(-{kappa!r}*f)/{solvent!r})" if kappa else f"(1/{solute!r}-1/{solvent!r})"
    if kind == "0":
        surface = factor(f"(radius+{PROBE!r})^2*(radius/B)^6; radius=or+{offset!r}")
        if surface is not None:
            found["surface_tension"] += surface
            return
        if (
            solute
            and solvent
            and (scale := factor(f"-0.5*{screened}*charge^2/B; f=B")) is not None
            and "single" not in found
        ):
            found["single"] = (round(scale, 9), solute, solvent, kappa)
            return
    elif kind == "2" and solute and solvent:
        scale = factor(f"-{screened}*charge1*charge2*{inverse}; f=sqrt(r^2+B1*B2*exp(-r^2/(4*B1*B2)))")
        if scale is not None and "pair" not in found:
            found["pair"] = (round(scale, 9), solute, solvent, kappa)
            return
    raise FileFormatError(
        f"{where}: energy terms must be those of generalized Born and of a surface area, got {expression!r}"
    )
