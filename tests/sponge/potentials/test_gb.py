"""Generalized Born: against analytic limits, another program, a scalar twin; kernels against the pure energy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sponge.reference import NAMES, load_reference
from triskele import core, sponge
from triskele.sponge.load.openmm_xml import load_openmm
from triskele.sponge.potentials.gb import tables as gb_tables
from triskele.sponge.potentials.gb.gb import GB, debye_kappa
from triskele.sponge.units import COULOMB

MODELS = list(gb_tables.MODELS)
IMPLICIT = [n for n in NAMES if {"CustomGBForce", "GBSAOBCForce"} & set(load_reference(n).energies)]


def cluster(n, seed=0, spacing=0.16):
    """Atoms near the points of a cubic lattice: about as dense as a protein."""
    rng = np.random.default_rng(seed)
    m = math.ceil(n ** (1 / 3))
    lattice = np.stack(np.meshgrid(*[np.arange(m)] * 3, indexing="ij"), -1).reshape(-1, 3)
    return spacing * lattice[rng.permutation(len(lattice))[:n]] + rng.normal(0, 0.02, (n, 3))


def solvent(n, model, seed=0, **options):
    """Random parameters in the range of proteins'."""
    rng = np.random.default_rng(seed)
    return GB(rng.normal(0, 0.4, n), rng.uniform(0.11, 0.19, n), rng.uniform(0.5, 1.0, n), model, **options)


def system_of(potential, positions):
    n = len(positions)
    system = sponge.System(sponge.Topology.of_particles(n), np.ones(n), positions=positions)
    system.add(potential)
    return system


def twin(gb, x):
    """The energy of one of the OBC models, HCT or GBn, scalar by scalar from the papers' equations."""
    p, model = gb.params, gb.constants
    n = len(x)
    d0, m0 = gb_tables.neck_tables()
    born = []
    for i in range(n):
        rho = p["radii"][i] - model.offset
        integral = 0.0
        for j in range(n):
            if i == j:
                continue
            r = math.dist(x[i], x[j])
            s = p["scales"][j] * (p["radii"][j] - model.offset)
            if r + s > rho:
                low, up = max(rho, abs(r - s)), r + s
                integral += 0.5 * (
                    1 / low - 1 / up + 0.25 * (r - s * s / r) * (up**-2 - low**-2) + 0.5 * math.log(low / up) / r
                )
                if rho < s - r:
                    integral += 1 / rho - 1 / low
            if model.neck and r < p["radii"][i] + p["radii"][j] + 0.68:
                at = [(p["radii"][k] - 0.1) / 0.005 for k in (i, j)]
                value = {}
                for name, table in (("d", d0), ("m", m0)):
                    (a, u), (b, v) = ((math.floor(t), t - math.floor(t)) for t in at)
                    value[name] = (
                        (1 - u) * (1 - v) * table[a, b]
                        + (1 - u) * v * table[a, b + 1]
                        + u * (1 - v) * table[a + 1, b]
                        + u * v * table[a + 1, b + 1]
                    )
                z = (r - value["d"]) / 0.1
                integral += model.neck * value["m"] / (1 + z**2 + 0.3 * z**6)
        if model.rescaling is None:
            born.append(1 / (1 / rho - integral))
        else:
            psi, a, b, c = integral * rho, p["alpha"][i], p["beta"][i], p["gamma"][i]
            born.append(1 / (1 / rho - math.tanh(a * psi - b * psi**2 + c * psi**3) / p["radii"][i]))
    energy = 0.0
    for i in range(n):
        radius = p["radii"][i]
        energy += gb.surface_tension * (radius + 0.14) ** 2 * (radius / born[i]) ** 6
        for j in range(n):
            r2 = math.dist(x[i], x[j]) ** 2
            f = math.sqrt(r2 + born[i] * born[j] * math.exp(-r2 / (4 * born[i] * born[j])))
            screened = 1 / gb.solute_dielectric - math.exp(-gb.kappa * f) / gb.solvent_dielectric
            energy -= 0.5 * COULOMB * screened * p["charges"][i] * p["charges"][j] / f
    return energy


# ------------------------------------------------------------------------------------------------------------ truth
@pytest.mark.parametrize("charge, radius", [(1.0, 0.2), (-2.0, 0.15)])
def test_an_ion_has_borns_energy(charge, radius):
    gb = GB([charge], [radius], [0.8], "hct", surface_tension=0.0)
    born = -0.5 * COULOMB * (1 - 1 / 78.5) * charge**2 / (radius - 0.009)
    assert gb.energy(gb.params, np.zeros((1, 3)), None) == pytest.approx(born, rel=1e-14)
    assert system_of(gb, np.zeros((1, 3))).energy() == pytest.approx(born, rel=1e-14)


def test_far_apart_charges_interact_through_the_solvent():
    """Vacuum Coulomb energy plus the pair's polarization energy is the energy in a dielectric, and Debye-Hueckel's with
    salt.
    """
    far = np.array([[0.0, 0, 0], [50.0, 0, 0]])
    for kappa in (0.0, 0.05):
        both = GB([1.0, -1.0], [0.15, 0.15], [0.8, 0.8], "hct", kappa=kappa, surface_tension=0.0)
        one = GB([1.0], [0.15], [0.8], "hct", kappa=kappa, surface_tension=0.0)
        pair = both.energy(both.params, far, None) - 2 * one.energy(one.params, far[:1], None) - COULOMB / 50
        assert pair == pytest.approx(-COULOMB / 50 / 78.5 * math.exp(-50 * kappa), rel=1e-4)


def test_the_debye_length_of_salt_water():
    """0.304 nm / sqrt(c) at 298 K in water of dielectric 78.5 (Israelachvili, Intermolecular and Surface Forces)."""
    assert debye_kappa(0.1, 298.15) / 0.73 == pytest.approx(math.sqrt(0.1) / 0.304, rel=3e-3)


@pytest.mark.parametrize("name", IMPLICIT)
def test_reference(name):
    """Another program's energies, by the pure form and by kernels."""
    reference = load_reference(name)
    system = load_openmm(reference.xml, positions=reference.positions)
    expected = reference.energies.get("CustomGBForce", reference.energies.get("GBSAOBCForce"))
    gb = system["gb"]
    assert gb.energy(gb.params, reference.positions, None) == pytest.approx(expected, rel=1e-9)
    assert system.energy_terms()["gb"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_the_scalar_twin(model):
    gb, x = solvent(9, model, kappa=1.1, solute_dielectric=2.0), cluster(9)
    assert gb.energy(gb.params, x, None) == pytest.approx(twin(gb, x), rel=1e-12)


def test_an_atom_inside_another():
    """The bounds of the integral change their roles when one sphere swallows the other; the energy stays continuous."""
    gb = GB([0.5, -0.3], [0.11, 0.19], [0.8, 1.0], "obc2")
    r_inside = 0.181 - 0.101  # where the small one's surface touches the large sphere from within
    energies = [gb.energy(gb.params, np.array([[0.0, 0, 0], [r_inside + d, 0, 0]]), None) for d in (-1e-9, 1e-9)]
    assert energies[0] == pytest.approx(energies[1], rel=1e-6)
    x = np.array([[0.0, 0, 0], [0.5 * r_inside, 0, 0]])
    assert gb.energy(gb.params, x, None) == pytest.approx(twin(gb, x), rel=1e-13)
    system = system_of(gb, x)
    assert system.energy() == pytest.approx(twin(gb, x), rel=1e-13)
    assert system.forces() == pytest.approx(-core.grad(lambda x: gb.energy(gb.params, x, None))(x), rel=1e-11)


# ---------------------------------------------------------------------------------------------------------- kernels
@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(MODELS),
    st.integers(1, 40),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.7]),
    st.sampled_from([0.0, 28.4]),
    st.sampled_from([None, 0.4]),
)
def test_kernels_are_the_pure_energy(model, n, seed, kappa, tension, cutoff):
    """Energy, forces and virial, for any number of atoms, padding and all."""
    gb, x = solvent(n, model, seed, kappa=kappa, surface_tension=tension, cutoff=cutoff), cluster(n, seed)
    system = system_of(gb, x)
    forces = -core.grad(lambda x: gb.energy(gb.params, x, None))(x)
    assert system.energy() == pytest.approx(float(gb.energy(gb.params, x, None)), rel=1e-11)
    assert system.forces() == pytest.approx(forces, rel=1e-9, abs=1e-9 * np.abs(forces).max() + 1e-12)
    assert system.virial() == pytest.approx(forces.T @ x, rel=1e-8, abs=1e-8 * np.abs(forces.T @ x).max() + 1e-9)


@pytest.mark.parametrize("cutoff", [None, 0.6])
def test_many_chunks_give_the_same_for_any_number_of_threads(cutoff):
    gb, x = solvent(300, "gbn2", 3, cutoff=cutoff), cluster(300, 3)
    system = system_of(gb, x)
    before = core.get_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            core.set_threads(threads)
            found.append((system.energy(), system.forces()))
    finally:
        core.set_threads(before)
    assert all(e == found[0][0] and np.array_equal(f, found[0][1]) for e, f in found)
    assert found[0][0] == pytest.approx(float(gb.energy(gb.params, x, None)), rel=1e-11)
    assert np.abs(found[0][1].sum(0)).max() < 1e-8


def test_nan_stays_visible():
    x = cluster(20)
    x[7, 1] = np.nan
    gb = solvent(20, "obc2")
    assert np.isnan(gb.energy(gb.params, x, None))


# ---------------------------------------------------------------------------------------------------------- cut-offs
def openmm_solvent(model, periodic, cutoff, kappa):
    """A peptide's charges in an implicit solvent as OpenMM's force fields make it: System, positions (nm)."""
    openmm = pytest.importorskip("openmm")
    app = pytest.importorskip("openmm.app")
    forces = pytest.importorskip("openmm.app.internal.customgbforces")
    reference = load_reference("ala2_obc2")
    gb = load_openmm(reference.xml)["gb"]
    system = openmm.System()
    for _ in gb.params["charges"]:
        system.addParticle(12.0)
    kinds = {"hct": "HCT", "obc1": "OBC1", "obc2": "OBC2", "gbn": "GBn", "gbn2": "GBn2"}
    topology = app.Topology()
    residue = topology.addResidue("ALA", topology.addChain())
    ours = sponge.load(*sponge.example_files("alanine-dipeptide")).topology
    atoms = [
        topology.addAtom(name, app.Element.getByAtomicNumber(int(z)), residue)
        for name, z in zip(ours.names, ours.elements)
    ]
    for i, j in ours.bonds:
        topology.addBond(atoms[i], atoms[j])
    kind = getattr(forces, f"GBSA{kinds[model]}Force")
    force = kind(cutoff=cutoff, kappa=kappa, SA="ACE")
    for charge, parameters in zip(gb.params["charges"].tolist(), np.array(kind.getStandardParameters(topology), float)):
        force.addParticle([charge, *parameters.tolist()])
    force.finalize()
    force.setNonbondedMethod(force.CutoffPeriodic if periodic else force.CutoffNonPeriodic)
    force.setCutoffDistance(cutoff)
    system.addForce(force)
    if periodic:
        system.setDefaultPeriodicBoxVectors([1.6, 0, 0], [0.3, 1.5, 0], [-0.2, 0.4, 1.7])
    return system, reference.positions


def openmm_result(system, positions):
    openmm = pytest.importorskip("openmm")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    state = context.getState(getEnergy=True, getForces=True)
    return state.getPotentialEnergy()._value, np.array(state.getForces(asNumpy=True)._value)


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("kappa", [0.0, 0.7])
@pytest.mark.parametrize("model", MODELS)
def test_a_cutoff_is_openmms(model, kappa, periodic, tmp_path):
    """Energies and forces of OpenMM's Reference platform, read from its XML, and those of what `to_openmm` writes."""
    openmm = pytest.importorskip("openmm")
    system, x = openmm_solvent(model, periodic, 0.7, kappa)
    energy, forces = openmm_result(system, x)
    (tmp_path / "system.xml").write_text(openmm.XmlSerializer.serialize(system))
    ours = load_openmm(tmp_path / "system.xml", positions=x)
    assert (ours["gb"].model, ours["gb"].cutoff) == (model, 0.7)
    assert ours.energy() == pytest.approx(energy, rel=1e-9)
    assert ours.forces() == pytest.approx(forces, rel=1e-9, abs=1e-9 * np.abs(forces).max())
    back, again = openmm_result(ours.to_openmm(), x)
    assert back == pytest.approx(energy, rel=1e-9)
    assert again == pytest.approx(forces, rel=1e-9, abs=1e-9 * np.abs(forces).max())


@pytest.mark.parametrize("periodic", [False, True])
def test_a_cutoff_of_the_native_force_is_openmms(periodic, tmp_path):
    openmm = pytest.importorskip("openmm")
    reference = load_reference("bpti_ff14sb_obc2")
    gb = load_openmm(reference.xml)["gb"]
    system, force = openmm.System(), openmm.GBSAOBCForce()
    for row in np.stack([gb.params[k] for k in ("charges", "radii", "scales")], 1).tolist():
        system.addParticle(12.0)
        force.addParticle(*row)
    force.setNonbondedMethod(force.CutoffPeriodic if periodic else force.CutoffNonPeriodic)
    force.setCutoffDistance(1.2)
    system.addForce(force)
    if periodic:
        system.setDefaultPeriodicBoxVectors([4.0, 0, 0], [0, 4.0, 0], [0, 0, 4.0])
    energy, forces = openmm_result(system, reference.positions)
    (tmp_path / "system.xml").write_text(openmm.XmlSerializer.serialize(system))
    ours = load_openmm(tmp_path / "system.xml", positions=reference.positions)
    assert ours.energy() == pytest.approx(energy, rel=1e-8)
    assert ours.forces() == pytest.approx(forces, rel=1e-8, abs=1e-8 * np.abs(forces).max())


def test_a_long_cutoff_takes_a_multiple_of_the_charges_off():
    """1/f - 1/cutoff of all pairs: the plain energy, and a constant times the sum of the charges' products."""
    gb, x = solvent(60, "gbn2", 2, cutoff=5.0), cluster(60, 2)
    plain, q = solvent(60, "gbn2", 2), gb.params["charges"]
    shift = 0.5 * COULOMB * (1 - 1 / 78.5) / 5.0 * (q.sum() ** 2 - (q * q).sum())
    assert system_of(gb, x).energy() - system_of(plain, x).energy() == pytest.approx(shift, rel=1e-9)
    assert system_of(gb, x).forces() == pytest.approx(system_of(plain, x).forces(), rel=1e-8, abs=1e-7)


@pytest.mark.parametrize(
    "box, cutoff, message",
    [(2.0, None, "without cut-off has no box"), (2.0, 1.1, "must be at most half the smallest box edge")],
)
def test_boxes_that_do_not_go_with_the_cutoff(box, cutoff, message):
    system = sponge.System(sponge.Topology.of_particles(2), np.ones(2), positions=np.zeros((2, 3)), box=[box] * 3)
    with pytest.raises(ValueError, match=message):
        system.add(solvent(2, "obc2", cutoff=cutoff))


# ------------------------------------------------------------------------------------------------------ derivatives
@pytest.mark.parametrize("model", MODELS)
def test_derivatives_by_positions_and_all_parameters(model):
    gb, x = solvent(5, model, 1, kappa=0.7), cluster(5, 1)
    # steps are in nm, in which energies bend within 0.01
    core.check_grads(lambda params, x: gb.energy(params, x, None), (gb.params, x), order=2, eps=2e-7, rtol=2e-5)


# ----------------------------------------------------------------------------------------------- parameters, errors
@pytest.mark.parametrize(
    "model, openmm_class",
    [("hct", "GBSAHCTForce"), ("obc2", "GBSAOBC2Force"), ("gbn", "GBSAGBnForce"), ("gbn2", "GBSAGBn2Force")],
)
def test_standard_radii_and_screening(model, openmm_class):
    """Those of another program for groups that the rules distinguish."""
    app = pytest.importorskip("openmm.app")
    internal = pytest.importorskip("openmm.app.internal.customgbforces")
    topology = app.Topology()
    chain = topology.addChain()
    bonds = {
        "ARG": (
            "N CA CB CD NE HE CZ NH1 HH11 HH12 O",
            "N-CA CA-CB CB-CD CD-NE NE-HE NE-CZ CZ-NH1 NH1-HH11 NH1-HH12 CA-O",
        ),
        "GLU": ("CG CD OE1 OE2 HG", "CG-CD CD-OE1 CD-OE2 CG-HG"),
        "CYS": ("SG HG CB", "SG-HG SG-CB"),
        "DA": ("P O5' C8 H8", "P-O5' C8-H8"),
    }
    for residue, (names, links) in bonds.items():
        r = topology.addResidue(residue, chain)
        atoms = {a: topology.addAtom(a, app.Element.getBySymbol(a[0]), r) for a in names.split()}
        for link in links.split():
            topology.addBond(*(atoms[a] for a in link.split("-")))
    n = topology.getNumAtoms()
    ours = sponge.Topology(
        [a.name for a in topology.atoms()],
        [a.element.atomic_number for a in topology.atoms()],
        [a.residue.index for a in topology.atoms()],
        [r.name for r in topology.residues()],
        [r.id for r in topology.residues()],
        [0] * topology.getNumResidues(),
        ["A"],
        [(a.index, b.index) for a, b in topology.bonds()],
    )
    found = gb_tables.standard_parameters(ours, model)
    expected = np.array(getattr(internal, openmm_class).getStandardParameters(topology), float)
    assert np.stack(list(found.values()), 1).shape == expected.shape == (n, 5 if model == "gbn2" else 2)
    assert np.stack(list(found.values()), 1) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(model="pb"), "model must be one of hct, obc1, obc2, gbn, gbn2, got 'pb'"),
        (dict(radii=[0.15, 0.005]), "radii must be above the offset 0.009 nm, got 0.005 for atom 1"),
        (dict(radii=[0.15, 0.21], model="gbn2"), "radii must lie between 0.1 and 0.2 nm, got 0.21 for atom 1"),
        (dict(cutoff=0.0), "cutoff must be a positive number .nm., got 0.0"),
        (dict(kappa=-1.0), "kappa must be a number >= 0"),
        (dict(solvent_dielectric=0.0), "solvent_dielectric must be positive"),
        (dict(charges=[1.0, np.nan]), "charges must be finite, got nan at 1"),
        (dict(scales=[1.0]), r"scales must have shape \(2,\), got \(1,\)"),
        (dict(model="hct", alpha=1.0), "does not rescale"),
    ],
)
def test_errors(options, message):
    given = dict(charges=[1.0, -1.0], radii=[0.15, 0.15], scales=[0.8, 0.8]) | options
    with pytest.raises(ValueError, match=message):
        GB(**given)


def test_parameters_for_other_atoms_than_the_systems():
    with pytest.raises(ValueError, match="for each of 3 atoms, got 2"):
        system_of(solvent(2, "obc2"), np.zeros((3, 3)))
