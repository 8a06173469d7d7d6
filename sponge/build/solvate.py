"""Water and ions around a structure, with OpenMM's Modeller."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from triskele.core.extend import check, said

from .. import box as boxes
from ..forcefield.assign import assign_templates
from ..forcefield.create import as_forcefield
from ..forcefield.sources import Source
from ..load.structure import Structure
from ..quantities import number_in
from ..system import System
from .modeller import from_openmm, openmm_app, openmm_field, seeded, to_openmm
from .virtual_sites import add_virtual_sites
from .water_box import oxygen_and_hydrogens, water_molecule

__all__ = ["solvate"]

_POSITIVE, _NEGATIVE = ("Cs+", "K+", "Li+", "Na+", "Rb+"), ("Cl-", "Br-", "F-", "I-")  # those of OpenMM's Modeller


def solvate(
    structure: Structure,
    forcefield: Any,
    *,
    padding: float | None = None,
    size: Any = None,
    shape: str = "cube",
    ionic_strength: float = 0.0,
    positive: str = "Na+",
    negative: str = "Cl-",
    neutralize: bool = True,
    seed: int = 0,
) -> Structure:
    """Surround a structure, which must have its hydrogens, with water and ions.

    Parameters
    ----------
    structure : Structure
    forcefield : sequence of names, paths or ligands
        Covers solute, water and ions. Its residue of an oxygen and two hydrogens is the water that is added, in
        the shape that it has there; HOH if there are several.
    padding : float, optional
        Least distance in nm between the solute and its images, half of it on each side: the box is as wide as the
        solute's bounding sphere and this, and at least twice this. Give either this or `size`; with neither, the
        structure's own box is filled.
    size : (3,) or (3, 3) array, optional
        Box in nm.
    shape : {"cube", "dodecahedron", "octahedron"}
        Shape of the box with `padding`.
    ionic_strength : float, mol/l
        Concentration of `positive` and `negative` ions, in addition to those that neutralize.
    positive, negative : str
        Kinds of the ions that are added: Cs+, K+, Li+, Na+ or Rb+, and Cl-, Br-, F- or I-.
    neutralize : bool
        Add ions until the box is neutral.
    seed : int
        Seed of the random positions of the ions.

    Returns
    -------
    Structure

    Raises
    ------
    ImportError
        If OpenMM is not installed.
    MissingTemplateError
        If a residue of the structure has no template.

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge.build import solvate
    >>> field = ["amber19/protein.ff19SB", "amber14/opc"]
    >>> peptide = sponge.read_pdb("peptide.pdb")  # doctest: +SKIP
    >>> full = solvate(peptide, field, padding=1.0, ionic_strength=0.15, shape="dodecahedron")  # doctest: +SKIP
    >>> system = sponge.create_system(full, forcefield=field, constraints="h-bonds")  # doctest: +SKIP
    """
    check.kind(structure, (Structure, System), "solvate: structure", hint="read a file with sponge.read_pdb")
    for source in forcefield if isinstance(forcefield, (list, tuple)) else [forcefield]:
        check.kind(source, (str, os.PathLike, Source), "solvate: forcefield", "names or paths")
    check.kind(neutralize, bool, "solvate: neutralize")
    check.integer(seed, "solvate: seed", 0)
    for name, ion, kinds in (("positive", positive, _POSITIVE), ("negative", negative, _NEGATIVE)):
        check.choice(ion, kinds, f"solvate: {name}")
    padding = number_in("nm", padding, "solvate: padding")
    ionic_strength = number_in("mol/l", ionic_strength, "solvate: ionic_strength")
    if padding is not None and size is not None:
        raise ValueError("solvate: either padding or size must be given, got both")
    if padding is None and size is None and structure.box is None:
        raise ValueError("solvate: padding or size must be given for a structure without a box, got neither")
    if padding is not None:
        check.choice(shape, ("cube", "dodecahedron", "octahedron"), "solvate: shape")
        check.positive(padding, "solvate: padding", "nm")
    check.number(ionic_strength, "solvate: ionic_strength", 0, unit="mol/l")
    app = openmm_app("solvate")
    import openmm
    from openmm import unit

    field = as_forcefield(forcefield)
    water = _water_of(field)
    if water is None:
        raise ValueError(
            f"solvate: the force field must have a water model, got {', '.join(field.names)} (add amber14/tip3p or "
            f"another)"
        )
    structure = add_virtual_sites(structure, field)
    assign_templates(structure.topology, field)  # OpenMM's own message says less
    topology, positions = to_openmm(structure, app)
    modeller = app.Modeller(topology, positions)
    given: dict[str, Any] = {}
    if padding is not None:
        given = {"padding": padding * unit.nanometer, "boxShape": shape}
    elif size is not None:
        given = {"boxVectors": [openmm.Vec3(*row) * unit.nanometer for row in boxes.as_box(size, "solvate")]}
    with said(f"solvate: placing water and ions around {structure.topology.n:,} atoms"), seeded(seed):
        modeller.addSolvent(
            openmm_field(forcefield, app),
            # the number of sites matters, the shape follows
            model=("tip3p", "tip4pew", "tip5p")[min(len(water.sites), 2)],
            ionicStrength=ionic_strength * unit.molar,
            positiveIon=positive,
            negativeIon=negative,
            neutralize=neutralize,
            **given,
        )
    vectors = np.array(
        [[c for c in v] for v in modeller.topology.getPeriodicBoxVectors().value_in_unit(unit.nanometer)]
    )
    full = from_openmm(modeller.topology, modeller.positions, boxes.as_box(vectors))
    return _reshape_water(full, len(structure.topology.residue_names), field, water)


def _water_of(field):
    """The template of water: HOH, or else the first of an oxygen and two hydrogens, such as CHARMM's TIP3."""
    waters = {
        name: t
        for name, t in field.templates.items()
        if sorted(t.elements[t.elements > 0].tolist()) == [1, 1, 8] and not t.external.any()
    }
    return waters.get("HOH", next(iter(waters.values()), None))


def _reshape_water(structure, first, field, template):
    """Waters from residue number `first` on in the shape of their template; oxygens, planes and bisectors stay."""
    t = structure.topology
    atoms = np.flatnonzero((t.residue_names[t.residue_index] == "HOH") & (t.residue_index >= first)).reshape(
        -1, len(template.names)
    )
    if not len(atoms):
        return structure
    # atoms of an element, and sites, come in the order of the template's, whatever their names
    placed = np.argsort(np.argsort(template.elements, kind="stable"), kind="stable")
    atoms = atoms[:, np.argsort(t.elements[atoms[0]], kind="stable")[placed]]
    o, h1, h2 = (structure.positions[atoms[:, k]] for k in oxygen_and_hydrogens(template))
    x = h1 + h2 - 2 * o
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = h1 - h2
    y -= np.sum(x * y, axis=1, keepdims=True) * x
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    positions = structure.positions.copy()
    positions[atoms] = o[:, None] + np.einsum(
        "ka,amb->mkb", water_molecule(field, template), np.stack([x, y, np.cross(x, y)])
    )
    return Structure(t, positions, structure.box)
