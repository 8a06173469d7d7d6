"""Reading prepared systems: OpenMM's XML, and what happens with broken files."""

import gzip
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sponge.reference import DATA, load_reference, openmm_energies, pure_energies
from triskele import sponge
from triskele.sponge.codegen.expressions import parse
from triskele.sponge.errors import FileFormatError
from triskele.sponge.load.openmm_xml import load_openmm

VACUUM = [DATA / "ala2_vacuum" / f"alanine-dipeptide.{suffix}" for suffix in ("prmtop", "crd")]
WATER = [DATA / "ala2_explicit_pme" / f"alanine-dipeptide.{suffix}.gz" for suffix in ("prmtop", "crd")]


class TestOpenMM:
    """The systems themselves are compared in test_reference; here is what they do not contain."""

    def serialized(self, path, system):
        mm = pytest.importorskip("openmm")
        path.write_text(mm.XmlSerializer.serialize(system))
        return path

    def particles(self, n, **_):
        mm = pytest.importorskip("openmm")
        system = mm.System()
        for _ in range(n):
            system.addParticle(12.0)
        return mm, system

    def test_custom_forces_of_known_forms(self, rng, tmp_path):
        mm, omm = self.particles(5)
        bond = mm.CustomBondForce("k*(r-d)^2; d = d0+0.01")
        bond.addPerBondParameter("k")
        bond.addPerBondParameter("d0")
        bond.addBond(0, 1, [500.0, 0.1])
        bond.addBond(1, 2, [700.0, 0.2])
        pair = mm.CustomBondForce("138.935456*q/r + 4*e*((s/r)^12-(s/r)^6)")
        for name in "qse":
            pair.addPerBondParameter(name)
        pair.addBond(0, 3, [0.3, 0.25, 0.4])
        pair.addBond(0, 4, [0.0, 0.3, 0.2])
        angle = mm.CustomAngleForce("0.5*k*(theta-1.9)^2")
        angle.addPerAngleParameter("k")
        angle.addAngle(0, 1, 2, [300.0])
        torsion = mm.CustomTorsionForce("k*min(dtheta, 2*pi-dtheta)^2; dtheta = abs(theta-theta0); pi = 3.1415926535")
        torsion.addPerTorsionParameter("k")
        torsion.addPerTorsionParameter("theta0")
        torsion.addTorsion(0, 1, 2, 3, [40.0, -3.0])
        torsion.addTorsion(1, 2, 3, 4, [30.0, 0.5])
        external = mm.CustomExternalForce("k*((x-x0)^2+(y-y0)^2+(z-z0)^2)")
        for name in ("k", "x0", "y0", "z0"):
            external.addPerParticleParameter(name)
        external.addParticle(2, [100.0, 0.1, 0.2, 0.3])
        rb = mm.RBTorsionForce()
        rb.addTorsion(0, 1, 2, 3, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
        for force in (bond, pair, angle, torsion, external, rb):
            omm.addForce(force)
        positions = rng.uniform(0, 0.5, (5, 3))
        system = load_openmm(self.serialized(tmp_path / "x.xml", omm), positions=positions)
        assert sum(pure_energies(system).values()) == pytest.approx(
            sum(openmm_energies(omm, positions).values()), rel=1e-8
        )
        assert {"bond", "pair14", "angle", "improper", "position_restraint", "ryckaert_bellemans"} == {
            p.name for p in system.potentials
        }

    def test_objects_in_memory(self):
        """A System is taken like its XML, with OpenMM's topology and quantities."""
        app = pytest.importorskip("openmm.app")
        top, crd = app.AmberPrmtopFile(str(VACUUM[0])), app.AmberInpcrdFile(str(VACUUM[1]))
        made = top.createSystem(constraints=app.HBonds)
        system = sponge.load(made, topology=top.topology, positions=crd.positions)
        assert system.topology.residue_names.tolist() == ["ACE", "ALA", "NME"] and len(system.constraints) == 12
        assert sum(pure_energies(system).values()) == pytest.approx(
            sum(openmm_energies(made, crd.positions).values()), rel=1e-9
        )
        assert sponge.load(made).positions is None
        with pytest.raises(FileFormatError, match="^openmm.System: has 22 atoms, got a set of coordinates of 3"):
            sponge.load(made, positions=np.zeros((3, 3)))
        with pytest.raises(TypeError, match="cutoff"):
            sponge.load(made, cutoff=1.0)

    @pytest.mark.parametrize(
        "expression", ["k*unknown(r)", "k*(r-missing)^2", "k*r^", "1/0*k*r", "(" * 300 + "r" + ")" * 300]
    )
    def test_other_expressions_are_refused(self, expression, tmp_path):
        text = """<System type="System" version="1"><Particles><Particle mass="1"/><Particle mass="1"/></Particles><Constraints/>
            <Forces><Force type="CustomBondForce" energy="%s"><PerBondParameters><Parameter name="k"/></PerBondParameters>
            <Bonds><Bond p1="0" p2="1" param1="3"/></Bonds></Force></Forces></System>"""  # noqa: E501
        (tmp_path / "x.xml").write_text(text % expression)
        with pytest.raises(FileFormatError, match="CustomBondForce"):
            load_openmm(tmp_path / "x.xml")

    def test_table_of_lennard_jones(self, rng, tmp_path):
        """Return the XML that OpenMM writes for CHARMM force fields."""
        mm, omm = self.particles(4)
        charges = mm.NonbondedForce()
        table = mm.CustomNonbondedForce("acoef(type1, type2)/r^12 - bcoef(type1, type2)/r^6;")
        a, b = np.array([[1e-6, 3e-6], [3e-6, 5e-6]]), np.array([[1e-3, 2e-3], [2e-3, 4e-3]])
        table.addTabulatedFunction("acoef", mm.Discrete2DFunction(2, 2, a.ravel().tolist()))
        table.addTabulatedFunction("bcoef", mm.Discrete2DFunction(2, 2, b.ravel().tolist()))
        table.addPerParticleParameter("type")
        for k in range(4):
            charges.addParticle(0.1 * (-1) ** k, 1.0, 0.0)
            table.addParticle([k // 2])
        charges.addException(0, 1, 0.0, 1.0, 0.0)
        table.addExclusion(0, 1)
        omm.addForce(table)
        omm.addForce(charges)
        positions = rng.uniform(0, 0.6, (4, 3))
        system = load_openmm(self.serialized(tmp_path / "x.xml", omm), positions=positions)
        assert system.nonbonded.mixing == "table"
        assert pure_energies(system)["nonbonded"] == pytest.approx(
            sum(openmm_energies(omm, positions).values()), rel=1e-12
        )

    def test_virtual_sites(self, rng, tmp_path):
        mm, omm = self.particles(7)
        sites = [
            mm.TwoParticleAverageSite(0, 1, 0.3, 0.7),
            mm.ThreeParticleAverageSite(0, 1, 2, 0.2, 0.3, 0.5),
            mm.OutOfPlaneSite(0, 1, 2, 0.1, 0.2, 0.3),
            mm.LocalCoordinatesSite([0, 1, 2], [0.5, 0.25, 0.25], [-1, 0.5, 0.5], [0, -1, 1], mm.Vec3(0.1, 0.2, 0.3)),
        ]
        for k, site in enumerate(sites):
            omm.setParticleMass(3 + k, 0.0)
            omm.setVirtualSite(3 + k, site)
        positions = rng.uniform(0, 0.5, (7, 3))
        system = load_openmm(self.serialized(tmp_path / "x.xml", omm))
        context = mm.Context(omm, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
        context.setPositions(positions)
        context.computeVirtualSites()
        expected = context.getState(getPositions=True).getPositions(asNumpy=True)._value
        for kind in system.virtual_sites:
            positions = kind.place(positions)
        assert positions == pytest.approx(expected, abs=1e-12)

    def test_state_gives_positions_velocities_and_box(self, tmp_path):
        mm = pytest.importorskip("openmm")
        reference = load_reference("ala2_explicit_rf")
        omm = mm.XmlSerializer.deserialize(gzip.decompress(reference.xml.read_bytes()).decode())
        context = mm.Context(omm, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
        context.setPositions(reference.positions)
        context.setPeriodicBoxVectors(*(1.1 * reference.box))
        context.setVelocitiesToTemperature(300, 1)
        state = context.getState(getPositions=True, getVelocities=True)
        (tmp_path / "state.xml").write_text(mm.XmlSerializer.serialize(state))
        system = sponge.load(reference.xml, tmp_path / "state.xml")
        assert system.box == pytest.approx(1.1 * reference.box)
        assert system.velocities == pytest.approx(state.getVelocities(asNumpy=True)._value, rel=1e-12)

    def test_names_from_a_structure(self):
        system = sponge.load(DATA / "ala2_vacuum" / "system.xml.gz", DATA / "ala2_vacuum" / "ala2_vacuum.pdb")
        assert system.topology.residue_names.tolist() == ["ACE", "ALA", "NME"]

    def test_without_names_molecules_are_residues(self):
        t = load_openmm(DATA / "water_tip4pew" / "system.xml.gz").topology
        assert t.residue_names[0] == "HOH" and t.names[:4].tolist() == ["O", "H", "H", "X"]
        assert np.all(np.bincount(t.molecules) == 4)

    def test_parts_of_a_run_are_left_out_with_a_warning(self, tmp_path):
        mm, omm = self.particles(1)
        omm.addForce(mm.MonteCarloBarostat(1.0, 300.0))
        with pytest.warns(UserWarning, match="MonteCarloBarostat is a part of the run"):
            load_openmm(self.serialized(tmp_path / "x.xml", omm))

    def test_bonded_forces_alone_may_be_periodic(self, tmp_path):
        mm, omm = self.particles(2)
        force = mm.HarmonicBondForce()
        force.addBond(0, 1, 0.1, 100.0)
        force.setUsesPeriodicBoundaryConditions(True)
        omm.addForce(force)
        positions = np.array([[0.0, 0, 0], [1.95, 0, 0]])
        system = load_openmm(self.serialized(tmp_path / "x.xml", omm), positions=positions)
        assert system.energy() == pytest.approx(0.5 * 100 * 0.05**2)

    def test_unknown_forces_are_named(self, tmp_path):
        mm, omm = self.particles(2)
        omm.addForce(mm.RMSDForce([mm.Vec3(0, 0, 0)] * 2))
        with pytest.raises(FileFormatError, match="RMSDForce"):
            load_openmm(self.serialized(tmp_path / "x.xml", omm))

    def test_foreign_xml(self, tmp_path):
        for text, message in (
            ("<ForceField/>", "pass it as forcefield="),
            ("<System><Particles>", "truncated"),
            ("nonsense", "must be XML"),
            ("<System/>", "Particles and Forces"),
        ):
            (tmp_path / "x.xml").write_text(text)
            with pytest.raises(FileFormatError, match=message):
                sponge.load(tmp_path / "x.xml")


def test_expressions():
    assert parse("a*x^2 - b; b = c+1; c = 2", "x")({"a": 2.0, "x": 3.0}) == 15.0
    assert parse("select(step(x), min(x, 2), -1)", "x")({"x": np.array([-1.0, 1.0, 3.0])}).tolist() == [-1, 1, 2]
    for bad in ("__import__('os')", "x.real", "[1]", "x if x else 1", "f(x)", "1 +"):
        with pytest.raises(FileFormatError):
            parse(bad, "x", ["x"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["prmtop", "xml"]), st.integers(0, 10**6), st.integers(1, 300), st.binary(max_size=12))
def test_damaged_files_are_refused_or_read(tmp_path, kind, start, length, instead):
    """A piece of a file is lost or overwritten: the error is one of ours, never one from the depth of the reader."""
    data = (
        VACUUM[0].read_bytes()
        if kind == "prmtop"
        else gzip.decompress((DATA / "ala2_gbn" / "system.xml.gz").read_bytes())
    )
    start %= len(data)
    path = tmp_path / f"damaged.{kind}"
    path.write_bytes(data[:start] + instead + data[start + length :])
    try:
        sponge.load(path)
    except (ValueError, TypeError) as error:
        assert isinstance(error, FileFormatError) or str(error).startswith(
            ("nonbonded", "topology", "system", "GB", "periodic")
        )


class TestErrors:
    def truncated(self, tmp_path, size):
        path = tmp_path / "short.prmtop"
        path.write_bytes(VACUUM[0].read_bytes()[:size])
        return path

    def test_truncated_anywhere(self, tmp_path):
        """A prmtop that ends early is never read as a smaller one."""
        data = VACUUM[0].read_bytes()
        end = data.index(b"%FLAG HBCUT")  # what follows is not needed, or for implicit solvents alone
        for size in np.linspace(1, end - 100, 61).astype(int):
            with pytest.raises(FileFormatError):
                sponge.load(self.truncated(tmp_path, size), VACUUM[1])
        for size in np.linspace(data.index(b"%FLAG RADIUS_SET"), len(data) - 2, 20).astype(int):
            with pytest.raises(FileFormatError):
                sponge.load(self.truncated(tmp_path, size), VACUUM[1], implicit_solvent="obc2")

    def test_the_section_and_the_counts_are_named(self, tmp_path):
        size = VACUUM[0].read_bytes().index(b"%FLAG ANGLES_INC_HYDROGEN") + 500
        with pytest.raises(
            FileFormatError,
            match=r"section ANGLES_INC_HYDROGEN must hold 100 = 4 \* NTHETH entries, got \d+ .*truncated",
        ):
            sponge.load(self.truncated(tmp_path, size), VACUUM[1])

    @pytest.mark.parametrize("section, message", [("LENNARD_JONES_DCOEF", "12-6-4"), ("AMOEBA_FORCEFIELD", "AMOEBA")])
    def test_terms_that_are_not_supported(self, section, message, tmp_path):
        path = tmp_path / "x.prmtop"
        path.write_text(VACUUM[0].read_text() + f"%FLAG {section}\n%FORMAT(5E16.8)\n  1.00000000E+00\n")
        with pytest.raises(FileFormatError, match=message):
            sponge.load(path)

    def test_hydrogen_bond_terms(self, tmp_path):
        path = tmp_path / "x.prmtop"
        text = gzip.decompress(WATER[0].read_bytes()).decode()
        head, tail = text.split("%FLAG HBOND_ACOEF")
        path.write_text(head + "%FLAG HBOND_ACOEF" + tail.replace("0.00000000E+00", "7.55700000E+03", 1))
        with pytest.raises(FileFormatError, match="10-12"):
            sponge.load(path)

    def test_letters_among_numbers(self, tmp_path):
        path = tmp_path / "x.prmtop"
        path.write_text(VACUUM[0].read_text().replace("  1.00800000E+00", "  1.0080000xE+00", 1))
        with pytest.raises(FileFormatError, match=r"section MASS: must hold numbers, got '1.0080000xE\+00' as entry 1"):
            sponge.load(path)

    def test_stars_in_coordinates(self, tmp_path):
        path = tmp_path / "x.inpcrd"
        path.write_text(VACUUM[1].read_text()[:200] + "************" + VACUUM[1].read_text()[212:])
        with pytest.raises(FileFormatError, match="coordinates"):
            sponge.load(VACUUM[0], path)

    def test_files_of_different_systems(self):
        with pytest.raises(FileFormatError, match="has 22 atoms, got coordinates of 2269"):
            sponge.load(VACUUM[0], WATER[1])
        with pytest.raises(FileFormatError, match="has 22 atoms, got a structure of"):
            sponge.load(DATA / "ala2_vacuum" / "system.xml.gz", DATA / "bpti_ff14sb_vacuum" / "bpti.pdb")

    def test_atoms_in_another_order(self, tmp_path):
        lines = (DATA / "ala2_vacuum" / "ala2_vacuum.pdb").read_text().split("\n")
        atoms = [k for k, line in enumerate(lines) if line.startswith(("ATOM", "HETATM"))]
        lines[atoms[0]], lines[atoms[1]] = lines[atoms[1]], lines[atoms[0]]
        path = tmp_path / "swapped.pdb"
        path.write_text("\n".join(lines))
        with pytest.raises(FileFormatError, match="another order"):
            sponge.load(VACUUM[0], path)
        with pytest.raises(FileFormatError, match="another order"):
            sponge.load(DATA / "ala2_vacuum" / "system.xml.gz", path)
        system = sponge.load(VACUUM[0], DATA / "ala2_vacuum" / "ala2_vacuum.pdb")
        assert system.positions == pytest.approx(sponge.load(*VACUUM).positions, abs=1e-4)

    def test_kinds_of_files(self, tmp_path):
        (tmp_path / "x.doc").write_text("")
        with pytest.raises(FileFormatError, match=r"suffix must be one of \.prmtop, .*\.pdb"):
            sponge.load(tmp_path / "x.doc")
        with pytest.raises(FileNotFoundError, match="nowhere.prmtop"):
            sponge.load(tmp_path / "nowhere.prmtop")
        with pytest.raises(TypeError, match="forcefield is needed"):
            sponge.load(DATA / "ala2_vacuum" / "ala2_vacuum.pdb")
        with pytest.raises(TypeError, match="has its own parameters"):
            sponge.load(*VACUUM, forcefield="amber14/tip3p")
        with pytest.raises(TypeError, match="at most one"):
            sponge.load(VACUUM[0], VACUUM[0])
        with pytest.raises(TypeError, match=r"load: an option must be .* got 'constrains' .*mean 'constraints'\?"):
            sponge.load(*VACUUM, constrains="h-bonds")
        with pytest.raises(TypeError, match="own settings"):
            sponge.load(DATA / "ala2_vacuum" / "system.xml.gz", cutoff=0.9)
        shutil.copy(DATA / "ala2_vacuum" / "ala2_vacuum.pdb", tmp_path / "wrong.prmtop")
        with pytest.raises(FileFormatError, match="must be an AMBER prmtop"):
            sponge.load(tmp_path / "wrong.prmtop")
        shutil.copy(VACUUM[0], tmp_path / "wrong.inpcrd")
        with pytest.raises(FileFormatError, match="number of atoms"):
            sponge.load(VACUUM[0], tmp_path / "wrong.inpcrd")

    def test_amber_files_called_top(self, tmp_path):
        shutil.copy(VACUUM[0], tmp_path / "x.top")
        assert sponge.load(tmp_path / "x.top", VACUUM[1]).energy() == pytest.approx(
            sponge.load(*VACUUM).energy(), rel=1e-12
        )


@pytest.mark.parametrize("first", ["sponge.load", "import triskele.sponge.load.pdb"])
def test_load_is_one_callable_object_whatever_is_imported_first(first):
    script = (
        f"from triskele import sponge\n{first}\nimport triskele.sponge.load.pdb\n"
        "from triskele.sponge.load import load, pdb\nassert sponge.load is load and load.pdb is pdb\n"
        "try: load()\nexcept TypeError as error: assert 'a file is needed' in str(error)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
