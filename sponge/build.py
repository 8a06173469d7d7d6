"""Building of systems: water boxes, missing hydrogens and atoms, solvent and ions.

`water_box` and `add_virtual_sites` are done here; `add_hydrogens` and `solvate` use OpenMM's Modeller, and PDBFixer for
missing heavy atoms, where these are installed (``pip install triskele[md]``).
"""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np

from triskele.core.extend import check

from . import box as boxes
from . import units
from .forcefield.assign import residue_graphs
from .forcefield.create import as_forcefield
from .forcefield.ffxml import ForceField, read_source
from .forcefield.templates import Template, match
from .load.structure import Structure, standard_residue
from .topology import Topology

__all__ = ["add_hydrogens", "add_virtual_sites", "solvate", "water_box"]

WATER_MODELS = ("tip3p", "tip3pfb", "spce", "tip4pew", "opc", "opc3")


def water_box(model: str = "tip3p", n: int | None = None, size: Any = None, density: float = 0.997,
              seed: int = 0) -> Structure:
    """A periodic box of rigid water.

    Molecules stand on a cubic lattice, turned at random; neighbours are about 0.3 nm apart at the density of water, so
    that nothing overlaps and a minimiser has little to do.

    Parameters
    ----------
    model : {"tip3p", "tip3pfb", "spce", "tip4pew", "opc", "opc3"}
        Geometry and virtual sites are those of the force field ``"amber14/" + model``.
    n : int, optional
        Number of molecules; from `size` and `density` when left out.
    size : float, array [3] or [3, 3], optional
        Box in nm, see `box.as_box`; a cube of the right density when left out.
    density : float
        In g/cm^3; not used if both `n` and `size` are given.
    seed : int
        Of the orientations.

    Returns
    -------
    Structure

    Raises
    ------
    ValueError
        If the model is not known, neither `n` nor `size` is given, or molecules would overlap.

    Examples
    --------
    >>> water = water_box("opc", n=64)
    >>> water.topology.n, round(float(water.box[0, 0]), 3)
    (256, 1.243)
    """
    if model not in WATER_MODELS:
        raise ValueError(f"water_box: model must be one of {', '.join(WATER_MODELS)}, got {model!r}")
    if n is None and size is None:
        raise ValueError("water_box: a number of molecules n or a size must be given, got neither")
    check.positive(density, "water_box: density", "g/cm^3")
    field = ForceField(f"amber14/{model}")
    template = field.templates["HOH"]
    mass = sum(field.types[t].mass for t in template.types)
    if size is None:
        if n < 1:
            raise ValueError(f"water_box: n must be positive, got {n}")
        size = (n * mass / (density / units.DENSITY)) ** (1 / 3)
    box = boxes.as_box(size, "water_box")
    if n is None:
        n = round(boxes.volume(box) * density / units.DENSITY / mass)
    if n < 1:
        raise ValueError(
            f"water_box: the box must hold a molecule, got a volume of {boxes.volume(box):.4f} nm^3 at {density} g/cm^3"
        )
    random_numbers = np.random.default_rng(seed)
    centers = _lattice(n, box, random_numbers)
    positions = centers[:, None] + np.einsum("mab,kb->mka", _rotations(n, random_numbers), _molecule(field, template))
    size_of = len(template.names)
    index = np.arange(n)
    bonds = (template.bonds + size_of * index[:, None, None]).reshape(-1, 2)
    topology = Topology(
        np.tile(template.names, n),
        np.tile(template.elements, n),
        np.repeat(index, size_of),
        np.full(n, "HOH"),
        (index + 1).astype(str),
        np.zeros(n, int),
        ["A"],
        bonds,
    )
    return Structure(topology, positions.reshape(-1, 3), box)


def _molecule(field, template):
    """Positions of the atoms and sites of a water molecule, the oxygen in the origin."""
    types = [field.types[t] for t in template.types]
    o, h1, h2 = (template.names.index(name) for name in ("O", "H1", "H2"))
    length = field.bonds.values[field.bonds.find((types[o], types[h1]))][0]
    angle = field.angles.values[field.angles.find((types[h1], types[o], types[h2]))][0]
    positions = np.zeros((len(types), 3))
    positions[h1], positions[h2] = ([length * np.cos(angle / 2), s * length * np.sin(angle / 2), 0] for s in (1, -1))
    for site in (s for s in template.sites if s.kind == "average3"):  # others are placed by `create_system`
        positions[site.index] = np.array(site.weights) @ positions[list(site.parents)]
    return positions


# Cubic lattices, as the points of their cell: simple, body-centred, face-centred
_CELLS = [
    np.array(cell)
    for cell in ([[0, 0, 0]], [[0, 0, 0], [0.5, 0.5, 0.5]], [[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
]
_CLOSEST = 0.24  # nm; oxygens in liquid water come no closer


def _lattice(n, box, random_numbers):
    """`n` points [n, 3] of the lattice that has the most room among those that fit the box; surplus points are taken
    out at random.
    """
    edges = np.linalg.norm(box, axis=1)
    around = np.array(list(np.ndindex(3, 3, 3))) - 1
    best = (0.0, None, None)
    for cell in _CELLS:
        low = np.maximum(np.floor(edges / (len(cell) * boxes.volume(box) / n) ** (1 / 3)).astype(int), 1)
        for more in np.ndindex(3, 3, 3):
            cells = low + more
            if len(cell) * cells.prod() >= n:
                steps = ((cell[:, None] + around) / cells).reshape(-1, 3) @ box
                length = np.linalg.norm(steps, axis=1)
                distance = length[length > 1e-9].min()
                if distance > best[0] + 1e-12:
                    best = distance, cells, cell
    distance, cells, cell = best
    if distance < _CLOSEST:
        raise ValueError(
            f"water_box: molecules must have room, got {n} in {boxes.volume(box):.3f} nm^3 (neighbours would be "
            f"{distance:.3f} nm apart)"
        )
    corners = np.stack(np.meshgrid(*(np.arange(c) for c in cells), indexing="ij"), axis=-1).reshape(-1, 1, 3)
    points = ((corners + cell + 0.25) / cells).reshape(-1, 3)
    keep = np.sort(random_numbers.choice(len(points), n, replace=False))
    return points[keep] @ box


def _rotations(n, random_numbers):
    """Uniform random rotations [n, 3, 3], from quaternions."""
    q = random_numbers.normal(size=(n, 4))
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    return np.stack(
        [
            1 - 2 * (y * y + z * z),
            2 * (x * y - z * w),
            2 * (x * z + y * w),
            2 * (x * y + z * w),
            1 - 2 * (x * x + z * z),
            2 * (y * z - x * w),
            2 * (x * z - y * w),
            2 * (y * z + x * w),
            1 - 2 * (x * x + y * y),
        ],
        axis=-1,
    ).reshape(n, 3, 3)


def add_virtual_sites(structure: Structure, forcefield: Any) -> Structure:
    """Add the virtual sites that templates have and the structure lacks, as for crystal waters under a four-site model.

    Parameters
    ----------
    structure : Structure
    forcefield : ForceField, str, path or sequence of these names

    Returns
    -------
    Structure
        Sites follow the atoms of their residue; they stand at its first atom until `create_system` places them.

    Examples
    --------
    >>> field = ["amber19/protein.ff19SB", "amber14/opc"]
    >>> full = add_virtual_sites(sponge.read_pdb("crystal.pdb"), field)  # doctest: +SKIP
    """
    field = as_forcefield(forcefield)
    t = structure.topology
    bare = {}
    for template in field.templates.values():
        if template.sites:
            atoms = ~np.isin(np.arange(len(template.names)), [site.index for site in template.sites])
            where = np.cumsum(atoms) - 1
            graph = Template(
                template.name,
                tuple(np.array(template.names)[atoms].tolist()),
                template.elements[atoms],
                where[template.bonds],
                template.external[atoms],
            )
            bare.setdefault(graph.signature, []).append((graph, np.array(template.names)[~atoms].tolist()))
    extra = [()] * len(t.residue_names)
    for residues, graph in residue_graphs(t):
        found = next((names for other, names in bare.get(graph.signature, ()) if match(other, graph) is not None), ())
        for r in residues if found else ():
            extra[r] = found
    ends = np.searchsorted(t.residue_index, np.arange(len(extra)), side="right")
    at = np.array([ends[r] for r, names in enumerate(extra) for _ in names], np.int64)
    owner = np.array([r for r, names in enumerate(extra) for _ in names], np.int64)
    if not len(at):
        return structure
    first = np.searchsorted(t.residue_index, owner)
    shift = np.arange(t.n) + np.searchsorted(at, np.arange(t.n), side="right")
    names = np.insert(t.names.astype(object), at, [name for names in extra for name in names]).astype(str)
    topology = Topology(
        names,
        np.insert(t.elements, at, 0),
        np.insert(t.residue_index, at, owner),
        t.residue_names,
        t.residue_ids,
        t.chain_index,
        t.chain_ids,
        shift[t.bonds],
    )
    return Structure(topology, np.insert(structure.positions, at, structure.positions[first], axis=0), structure.box)


# -- through OpenMM ----------------------------------------------------------------------------------------------------

_STATES = {
    "HID": "HID", "HIE": "HIE", "HIP": "HIP", "HSD": "HID", "HSE": "HIE", "HSP": "HIP", "ASH": "ASH", "ASPP": "ASH",
    "GLH": "GLH", "GLUP": "GLH", "LYN": "LYN", "LSN": "LYN", "CYX": "CYX",
}


def add_hydrogens(structure: Structure, ph: float = 7.0, missing_atoms: bool = False,
                  forcefield: Any = None) -> Structure:
    """Add missing hydrogens, in the protonation states of a pH or of the residues' names.

    HID, HIE, HIP, ASH, GLH, LYN and CYX (and CHARMM's names for these) keep their state; HIS is decided by hydrogen
    bonds, the others by model pKa values. Hydrogens that are there stay.

    Parameters
    ----------
    structure : Structure
    ph : float
    missing_atoms : bool
        Whether missing heavy atoms, terminal oxygens included, are added first (needs PDBFixer).
    forcefield : sequence of names or paths, optional
        With which hydrogens are relaxed; needed for residues that are not standard. Also adds its virtual sites.

    Returns
    -------
    Structure

    Raises
    ------
    ImportError
        If OpenMM, or PDBFixer for missing atoms, is not installed.

    Examples
    --------
    >>> from triskele import sponge
    >>> structure = sponge.build.add_hydrogens(sponge.read_pdb("1ubq.pdb"), missing_atoms=True)  # doctest: +SKIP
    """
    app = _openmm("add_hydrogens")
    states = [_STATES.get(str(name)) for name in structure.topology.residue_names]
    topology, positions = _to_openmm(structure, app)
    if missing_atoms:
        topology, positions = _complete(topology, positions, app)
    modeller = app.Modeller(topology, positions)
    field = None if forcefield is None else _openmm_field(forcefield, app)
    with _seeded(0):
        modeller.addHydrogens(field, pH=ph, variants=states)
        if field is not None:
            modeller.addExtraParticles(field)
    return _from_openmm(modeller.topology, modeller.positions, structure.box)


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
    forcefield : sequence of names or paths
        Of solute, water and ions; see `ForceField`. Its residue HOH is the water that is added, in the shape that it
        has there.
    padding : float, optional
        Least distance in nm between the solute and its images, half of it on each side: the box is as wide as the
        solute's bounding sphere and this, and at least twice this. Give either this or `size`; with neither, the
        structure's own box is filled.
    size : array [3] or [3, 3], optional
        Box in nm.
    shape : {"cube", "dodecahedron", "octahedron"}
        Of the box with `padding`.
    ionic_strength : float
        In mol/l, of `positive` and `negative` ions, beyond those that neutralise.
    positive, negative : str
        Kinds of the ions that are added.
    neutralize : bool
        Whether ions are added until the box has no charge.
    seed : int
        Of the places of the ions.

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
    >>> field = ["amber19/protein.ff19SB", "amber14/opc"]
    >>> full = solvate(structure, field, padding=1.0, ionic_strength=0.15, shape="dodecahedron")  # doctest: +SKIP
    >>> system = sponge.create_system(  # doctest: +SKIP
    ...     full.topology, full.positions, full.box, field, constraints="h-bonds"
    ... )
    """
    if padding is not None and size is not None:
        raise ValueError("solvate: either padding or size must be given, got both")
    if padding is None and size is None and structure.box is None:
        raise ValueError("solvate: padding or size must be given for a structure without a box, got neither")
    if padding is not None and shape not in ("cube", "dodecahedron", "octahedron"):
        raise ValueError(f"solvate: shape must be cube, dodecahedron or octahedron, got {shape!r}")
    check.number(ionic_strength, "solvate: ionic_strength", 0, unit="mol/l")
    app = _openmm("solvate")
    import openmm
    from openmm import unit

    from .forcefield.assign import assign_templates

    field = as_forcefield(forcefield)
    water = field.templates.get("HOH")
    if water is None:
        raise ValueError(
            f"solvate: the force field must have a water model, got {', '.join(field.names)} (add amber14/tip3p or "
            f"another)"
        )
    structure = add_virtual_sites(structure, field)
    assign_templates(structure.topology, field)  # OpenMM's own message says less
    topology, positions = _to_openmm(structure, app)
    modeller = app.Modeller(topology, positions)
    given: dict[str, Any] = {}
    if padding is not None:
        given = {"padding": padding * unit.nanometer, "boxShape": shape}
    elif size is not None:
        given = {"boxVectors": [openmm.Vec3(*row) * unit.nanometer for row in boxes.as_box(size, "solvate")]}
    with _seeded(seed):
        modeller.addSolvent(
            _openmm_field(forcefield, app),
            # the number of sites matters, the shape follows
            model=("tip3p", "tip4pew", "tip5p")[min(len(water.sites), 2)],
            ionicStrength=ionic_strength * unit.molar,
            positiveIon=positive,
            negativeIon=negative,
            neutralize=neutralize,
            **given,
        )
    vectors = np.array([[c for c in v]
                        for v in modeller.topology.getPeriodicBoxVectors().value_in_unit(unit.nanometer)])
    full = _from_openmm(modeller.topology, modeller.positions, boxes.as_box(vectors))
    return _reshape_water(full, len(structure.topology.residue_names), field, water)


def _reshape_water(structure, first, field, template):
    """Waters from residue number `first` on in the shape of their template; oxygens, planes and bisectors stay."""
    t = structure.topology
    atoms = np.flatnonzero((t.residue_names[t.residue_index] == "HOH") & (t.residue_index >= first)).reshape(
        -1, len(template.names)
    )
    order = {name: k for k, name in enumerate(t.names[atoms[0]].tolist())} if len(atoms) else {}
    if set(order) != set(template.names):
        return structure
    atoms = atoms[:, [order[name] for name in template.names]]
    o, h1, h2 = (structure.positions[atoms[:, template.names.index(name)]] for name in ("O", "H1", "H2"))
    x = h1 + h2 - 2 * o
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = h1 - h2
    y -= np.sum(x * y, axis=1, keepdims=True) * x
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    positions = structure.positions.copy()
    positions[atoms] = o[:, None] + np.einsum("ka,amb->mkb", _molecule(field, template),
                                              np.stack([x, y, np.cross(x, y)]))
    return Structure(t, positions, structure.box)


def _openmm(where):
    try:
        from openmm import app
    except ImportError:
        raise ImportError(f"{where}: OpenMM must be installed (pip install triskele[md])") from None
    return app


def _openmm_field(forcefield, app):
    if isinstance(forcefield, ForceField):
        raise TypeError("build: the force field must be given by names or paths, got a ForceField")
    sources = [forcefield] if isinstance(forcefield, (str, Path)) else forcefield
    return app.ForceField(*(io.StringIO(read_source(s).decode()) for s in sources))


class _seeded:
    """Python's own random numbers, which OpenMM draws from, started anew and given back as they were."""

    def __init__(self, seed):
        self.seed = seed

    def __enter__(self):
        self.state = random.getstate()
        random.seed(self.seed)

    def __exit__(self, *error):
        random.setstate(self.state)


def _complete(topology, positions, app):
    try:
        from pdbfixer import PDBFixer
    except ImportError:
        raise ImportError(
            "add_hydrogens: PDBFixer must be installed for missing atoms (pip install triskele[md])"
        ) from None
    text = io.StringIO()
    app.PDBFile.writeFile(topology, positions, text, keepIds=True)
    text.seek(0)
    fixer = PDBFixer(pdbfile=text)
    fixer.missingResidues = {}
    fixer.findMissingAtoms()
    fixer.addMissingAtoms(seed=1)
    return fixer.topology, fixer.positions


def _to_openmm(structure, app):
    """OpenMM's topology, under its names of standard residues and atoms, and positions."""
    import openmm
    from openmm import unit

    t = structure.topology
    topology = app.Topology()
    chains = [topology.addChain(str(c)) for c in t.chain_ids]
    entries = [standard_residue(str(name)) for name in t.residue_names]
    residues = [
        topology.addResidue(e[0] if e else str(name), chains[c], *_number_and_code(str(number)))
        for name, e, c, number in zip(t.residue_names, entries, t.chain_index, t.residue_ids)
    ]
    atoms = []
    for name, element, r in zip(t.names.tolist(), t.elements.tolist(), t.residue_index.tolist()):
        entry = entries[r]
        known = entry is None or any(name in bond for bond in entry[1])
        atoms.append(
            topology.addAtom(
                name if known else entry[2].get(name, name),
                app.Element.getByAtomicNumber(element) if element else None,
                residues[r],
            )
        )
    for i, j in t.bonds.tolist():
        topology.addBond(atoms[i], atoms[j])
    if structure.box is not None:
        topology.setPeriodicBoxVectors([openmm.Vec3(*row) for row in structure.box] * unit.nanometer)
    return topology, [openmm.Vec3(*row) for row in structure.positions] * unit.nanometer


def _number_and_code(text):
    return (text[:-1], text[-1]) if len(text) > 1 and text[-1].isalpha() else (text, "")


def _from_openmm(topology, positions, box):
    from openmm import unit

    atoms, residues = list(topology.atoms()), list(topology.residues())
    mine = Topology(
        [a.name for a in atoms],
        [a.element.atomic_number if a.element else 0 for a in atoms],
        [a.residue.index for a in atoms],
        [r.name for r in residues],
        [f"{r.id}{r.insertionCode.strip()}" for r in residues],
        [r.chain.index for r in residues],
        [c.id for c in topology.chains()],
        [(b[0].index, b[1].index) for b in topology.bonds()],
    )
    return Structure(mine, np.array(positions.value_in_unit(unit.nanometer)), box)
