"""Every reader of the suite: how it is called, what whole files look like, and the errors that its documentation
names.
"""

import dataclasses
import functools
import gzip
import hashlib
import io
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tests.faults.killed import springs
from tests.sponge.differential.gmx import write_gro
from tests.sponge.load.test_gromacs import BENT, DEFINES, RESTRAINED, TABULATED, tables
from triskele import core, quantum, sponge
from triskele import reinforce as rl
from triskele.core import nn, optim, random, train
from triskele.core.disk import disk_cache
from triskele.core.errors import FileFormatError
from triskele.quantum.errors import ChannelError, CircuitError, GateError, ParameterError, QASMError
from triskele.reinforce.errors import CheckpointError, ReinforceError, SearchError
from triskele.reinforce.policy import Categorical, Policy
from triskele.sponge import errors, learn
from triskele.sponge.forcefield.smirnoff import Smirnoff
from triskele.sponge.forcefield.smirnoff_xml import perceive, residue_xml
from triskele.sponge.load.amber_files import read_restart
from triskele.sponge.load.gro import read_gro
from triskele.sponge.load.mmcif import read_mmcif
from triskele.sponge.load.pdb import read_pdb
from triskele.sponge.xtc_codec import encode_frame

DATA = Path(__file__).parents[1] / "data"
ALA = DATA / "sponge" / "ala2_vacuum"
LOADING = (FileFormatError, errors.MissingTemplateError, errors.MissingParameterError, errors.BoxError)


@dataclasses.dataclass
class Target:
    """A reader.

    Attributes
    ----------
    read : function of a path
    seeds : function that gives whole files, as bytes
    errors : classes that the documentation names
    suffix : str
    bombs : function that gives files that are not whole, as bytes
    seal : function that makes a checksum fit, so that what lies behind it is reached
    names_file : whether errors must name the file
    """

    read: Callable[[Path], Any]
    seeds: Callable[[], list[bytes]]
    errors: tuple[type[BaseException], ...]
    suffix: str = ""
    bombs: Callable[[], list[bytes]] = list
    seal: Callable[[bytes], bytes] = lambda data: data
    names_file: bool = True
    name: str = ""


def written(write, *values, suffix=""):
    """Return the files that a function (path, value) writes for each of the values."""
    import tempfile

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for value in values:
            write(path := Path(folder) / f"whole{suffix}", value)
            found.append(path.read_bytes())
    return found


def plain(*paths):
    return [
        gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes()
        for p in (DATA / "sponge" / p for p in paths)
    ]


def gzip_bombs():
    return [gzip.compress(bytes(1 << 20)) * 400, gzip.compress(b"text")[:-3]]


# -- core --------------------------------------------------------------------------------------------------------------


def trees():
    return [
        {"a": np.arange(6.0).reshape(2, 3), "b": [np.float32(1), None, (True, 3)], "c": np.array([1 + 2j])},
        np.zeros(3, np.int8),
        {},
    ]


def header_bombs():
    return [
        n.to_bytes(8, "little") + text
        for n, text in [
            (2**63, b""),
            (10**8, b"{}"),
            (60_000, b"[" * 60_000),
            (2, b"{}"),
            *(
                (len(t), t)
                for t in (
                    b'{"x":{"dtype":"F64","shape":[1099511627776],"data_offsets":[0,8796093022208]}}',
                    b'{"x":{"dtype":"U8","shape":[0,4611686018427387904],"data_offsets":[0,0]}}',
                    b'{"__metadata__":{"triskele.tree":"' + b"[" * 50_000 + b'"}}',
                )
            ),
        ]
    ]


def resealed(data):
    """A file of `core.save` with the checksum that its content has now."""
    length = int.from_bytes(data[:8], "little")
    head, at = data[8 : 8 + min(length, len(data))], data.find(b'"triskele.sha256":"')
    if at < 0 or at + 83 > 8 + length:
        return data
    at += 19 - 8
    blank = head[:at] + b"0" * 64 + head[at + 64 :]
    return (
        data[:8]
        + blank[:at]
        + hashlib.sha256(blank + data[8 + length :]).hexdigest().encode()
        + blank[at + 64 :]
        + data[8 + length :]
    )


def cached(path):
    """An entry of the kernel cache: damaged ones count as missing, and are never taken."""
    from unittest import mock

    key = disk_cache.make_key("fuzz")
    with mock.patch.object(disk_cache, "_path", lambda *_: path):
        found = disk_cache.get(key)
    if found not in (None, b"machine code"):
        raise AssertionError(f"took {found[:50]!r}")


def cache_entry():
    data, key = b"machine code", disk_cache.make_key("fuzz")
    return [disk_cache._MAGIC + disk_cache._checksum(key, data) + data]


# -- sponge ------------------------------------------------------------------------------------------------------------


def cif():
    import gemmi

    structure = gemmi.read_structure(str(ALA / "ala2_vacuum.pdb"))
    structure.setup_entities()
    return [structure.make_mmcif_document().as_string().encode()]


def netcdf():
    from scipy.io import netcdf_file

    buffer = io.BytesIO()
    file = netcdf_file(buffer, "w")
    file.Conventions, file.ConventionVersion = "AMBERRESTART", "1.0"
    for name, size in (("atom", 3), ("spatial", 3), ("cell_spatial", 3), ("cell_angular", 3)):
        file.createDimension(name, size)
    for name, axes in (
        ("coordinates", ("atom", "spatial")),
        ("velocities", ("atom", "spatial")),
        ("cell_lengths", ("cell_spatial",)),
        ("cell_angles", ("cell_angular",)),
    ):
        file.createVariable(name, "d", axes)[:] = 50.0 + np.arange(3)
    file.createVariable("time", "d", ())[...] = 1.0
    file.flush()
    return [buffer.getvalue()]


def structure_files(path, forcefield=("amber14/protein.ff14SB",)):
    return sponge.load(path, forcefield=list(forcefield))


def with_topology(name):
    """A damaged topology with whole parameters and coordinates."""
    peptide = DATA / "sponge" / "parmed"
    if name == "psf":
        return lambda path: sponge.load(
            path, peptide / "peptide.prm.gz", peptide / "peptide.rtf.gz", peptide / "peptide_charmm27.gro.gz"
        )
    if name == "prm":
        return lambda path: sponge.load(
            peptide / "peptide.psf.gz", path, peptide / "peptide.rtf.gz", peptide / "peptide_charmm27.gro.gz"
        )
    if name == "rtf":
        return lambda path: sponge.load(
            peptide / "peptide.psf.gz", peptide / "peptide.prm.gz", path, peptide / "peptide_charmm27.gro.gz"
        )
    return lambda path: sponge.load(path, peptide / "peptide_amber.gro.gz")


def restrained():
    write_gro(Path("whole.gro"), BENT)
    tables(Path.cwd())
    defines = "".join(f"#define {name} {value}\n" for name, value in DEFINES.items())
    return [(defines + RESTRAINED).encode(), TABULATED.replace("TAB 1", "TAB 2").encode()]


FFXML = b"""<ForceField><AtomTypes><Type name="a" class="A" element="Ar" mass="39.948"/></AtomTypes>
<Residues><Residue name="AR"><Atom name="AR" type="a" charge="0.0"/></Residue></Residues>
<HarmonicBondForce><Bond class1="A" class2="A" length="0.1" k="1000.0"/></HarmonicBondForce>
<NonbondedForce coulomb14scale="0.8333" lj14scale="0.5"><UseAttributeFromResidue name="charge"/>
<Atom type="a" sigma="0.34" epsilon="0.99"/></NonbondedForce>
<PeriodicTorsionForce><Proper class1="A" class2="" class3="" class4="A" periodicity1="2" phase1="3.14" k1="1.0"/></PeriodicTorsionForce></ForceField>"""  # noqa: E501


OFFXML = b"""<SMIRNOFF version="0.3" aromaticity_model="OEAroModel_MDL"><Author>A</Author>
<Constraints version="0.3"><Constraint smirks="[#1:1]-[*:2]" id="c1" distance="1.09 * angstrom ** 1"/></Constraints>
<Bonds version="0.4" potential="harmonic" fractional_bondorder_method="AM1-Wiberg"><Bond smirks="[*:1]~[*:2]" id="b1"
length="1.5 * angstrom" k="430.5 * kilocalories_per_mole/angstrom**2"/></Bonds>
<Angles version="0.3"><Angle smirks="[*:1]~[#6X4:2]-[*:3]" angle="110.0 * degree ** 1" k="100 * mole ** -1 *
radian ** -2 * kilocalorie ** 1"/><Angle smirks="[*:1]~[*:2]~[*:3]" angle="2 * radian" k="1 * kilojoule_per_mole /
radian**2"/></Angles>
<ProperTorsions version="0.3" default_idivf="1.0"><Proper smirks="[*:1]-[#6X4:2]-[*:3]~[*:4]" periodicity1="3"
phase1="0.0 * degree" k1="0.2 * kilocalorie_per_mole" periodicity2="1" phase2="180 * degrees" k2="-0.1 *
kilocalorie_per_mole" idivf2="2.0"/><Proper smirks="[*:1]~[*:2]~[*:3]~[*:4]" periodicity1="2" phase1="0*degree"
k1="1*kilojoule_per_mole"/></ProperTorsions>
<ImproperTorsions version="0.3" default_idivf="auto"><Improper smirks="[*:1]~[#6X3:2](~[*:3])~[*:4]" periodicity1="2"
phase1="180.0 * degree" k1="1.1 * kilocalorie_per_mole"/></ImproperTorsions>
<vdW version="0.4" combining_rules="Lorentz-Berthelot" scale14="0.5" cutoff="9.0 * angstrom"><Atom smirks="[*:1]"
epsilon="0.1 * kilocalorie_per_mole" rmin_half="1.9 * angstrom"/><Atom smirks="[#1:1]" sigma="2.5 * angstrom"
epsilon="0.01 * kilocalorie_per_mole"/></vdW><Electrostatics version="0.3" method="PME" scale14="0.8333333333"/>
<LibraryCharges version="0.3"><LibraryCharge smirks="[#6:1]=[#8:2]" charge1="0.5 * elementary_charge" charge2="-0.5 *
elementary_charge"/></LibraryCharges><ToolkitAM1BCC version="0.3"/></SMIRNOFF>"""


@functools.cache
def acetamide():
    from rdkit import Chem

    return perceive(Chem.AddHs(Chem.MolFromSmiles("CC(=O)N")))


def ligand_of(path):
    """The parameters of a molecule in a damaged force field."""
    n = acetamide().GetNumAtoms()
    residue_xml(Smirnoff(path), acetamide(), "LIG", [f"A{k}" for k in range(n)], np.zeros(n))


@functools.cache
def dimers():
    """One simulation for all: what a damaged file left of its state is overwritten by the next."""
    return springs(4)


def dimers_saved():
    sim = dimers.__wrapped__()
    sim.run(4)
    return written(lambda path, sim: sim.save(path), sim)


def resume(path):
    dimers().load(path)


class Continued:
    """A file of a reporter that a resumed run continues."""

    def __init__(self, kind, suffix):
        self.kind, self.suffix = kind, suffix

    def begin(self, folder):
        sim, path = dimers.__wrapped__(), Path(folder) / f"damaged{self.suffix}"
        sim.run(4, report=[self.kind(path, 2)])
        sim.save(Path(folder) / "state.chk")
        return path.read_bytes()

    def seeds(self):
        return [self.begin(Path.cwd())]

    def read(self, path):
        sim = dimers()
        sim.load("state.chk")
        sim.run(2, report=[self.kind(path, 2)])


def networks():
    painn = learn.PaiNN.init(random.key(0), ["H", "O"], features=4, layers=1, radial=3)
    behler = learn.BehlerParrinello.init(random.key(0), ["H", "O"], features=4, layers=1, radial=3, angular=1)
    return written(learn.save, painn, behler)


def training():
    """A training before its first epoch, without its checkpoint."""
    model = train.Model(nn.Linear.init(random.key(0), 2, 1), nn.mean_squared_error, optim.Adam())
    return model, [(np.ones((4, 2), np.float32), np.ones((4, 1), np.float32))]


def trainings():
    def write(path, epochs):
        model, batches = training()
        model.fit(batches, epochs, callbacks=[train.StateFile(path, {"rate": 2.0})], progress=False)

    return written(write, 1, 2)


def resume_training(path):
    model, batches = training()
    file = train.StateFile(path, {"rate": 2.0})
    with file.opened(train.Run(model, batches, 3, None, [file], None, 0)):
        pass


# -- quantum -----------------------------------------------------------------------------------------------------------

QASM2 = [
    b'OPENQASM 2.0;\ninclude "qelib1.inc";\ngate my(a, b) q, r { u3(a/2, -b, pi) q; cx q, r; barrier q, r; '
    b"rz(sin(a)^2) r; }\nqreg q[3]; creg c[3];\n"
    b"h q; my(0.5, pi/4) q[0], q[2];\ncu1(-1.5e-1) q[0], q[1];\nif (c==1) x q[1];\nmeasure q -> c;\nreset q[0];\n"
]
QASM3 = [
    b'OPENQASM 3.0;\ninclude "stdgates.inc";\ninput float[64] theta;\nconst int n = 3;\nqubit[n] q; bit[n] c;\n'
    b"gate g(t) a, b { ctrl @ p(t) a, b; inv @ s a; pow(2) @ t b; }\nfor int i in [0:n-1] { h q[i]; }\ng(theta/2) "
    b"q[0], q[1];\nc[0] = measure q[0];\n"
    b"if (c[0] == 1) { x q[1]; } else { y q[2]; }\nU(0.1, 0.2, 0.3) q[2];\ngphase(pi/4);\nc = measure q;\n"
]


def program(text):
    return quantum.Circuit.from_qasm(text + "\n")  # a text of one line may be a path


def circuits():
    one = quantum.Circuit(3).h(0).crx({"a": 0.1}, 0, 1).rz(0.3, 2).ccx(0, 1, 2)
    return [one.to_json().encode()]


# -- reinforce ---------------------------------------------------------------------------------------------------------


def policies():
    head = Categorical(nn.MLP.init(random.key(0), [4, 5, 2], activation=nn.relu))
    return written(lambda path, policy: policy.save(path), Policy(head, (4,), None, 2))


def use_policy(path):
    policy = rl.Policy.load(path)
    np.asarray(policy(np.zeros(policy.observation_shape, np.float32)))


@functools.cache
def ppo():
    return rl.PPO("CartPole-v1", num_envs=2, num_steps=8, minibatches=2, epochs=1, hidden=(4,), seed=0)


def searched():
    game = rl.games.TicTacToe()
    return written(lambda path, tree: tree.save(path), rl.MCTS(game, 40, seed=0)(game.initial_state()).tree)


def check_tree(path):
    tree = rl.SearchTree.load(path, rl.games.TicTacToe())
    tree.draw(9, 9)
    assert len(list(tree.root.walk())) <= len(tree)
    for node in list(tree.root.walk())[:20]:
        assert len(node.moves) <= len(tree) + len(tree.moves)


def nested_text():
    text = b'{"kind":"policy","version":2,"value":' + b'{"list":[' * 20_000 + b"]}" * 20_000 + b"}"
    return written(core.save, {"text": np.frombuffer(text, np.uint8), "arrays": {}})


def text_of(read):
    return lambda path: read(path.read_bytes().decode("latin-1"))


def models():
    (text,) = plain("ala2_vacuum/ala2_vacuum.pdb")
    body = b"".join(line for line in text.splitlines(keepends=True) if line.startswith((b"ATOM", b"HETATM", b"TER")))
    cell = b"CRYST1   30.000   30.000   30.000  90.00  90.00  90.00 P 1           1\n"
    return [b"".join(cell + b"MODEL     %4d\n" % k + body + b"ENDMDL\n" for k in (1, 2, 3)) + b"END\n"]


def netcdf_trajectory():
    from scipy.io import netcdf_file

    buffer = io.BytesIO()
    file = netcdf_file(buffer, "w", version=2)
    file.Conventions, file.ConventionVersion = "AMBER", "1.0"
    for name, size in (("frame", None), ("atom", 4), ("spatial", 3), ("cell_spatial", 3), ("cell_angular", 3)):
        file.createDimension(name, size)
    for name, kind, axes in (
        ("time", "f", ("frame",)),
        ("coordinates", "f", ("frame", "atom", "spatial")),
        ("cell_lengths", "d", ("frame", "cell_spatial")),
        ("cell_angles", "d", ("frame", "cell_angular")),
    ):
        variable = file.createVariable(name, kind, axes)
        for k in range(3):
            variable[k] = 60.0 + k
    file.flush()
    return [buffer.getvalue()]


def compressed():
    rng = np.random.default_rng(0)
    water = np.repeat(rng.uniform(0, 2, (20, 3)), 3, axis=0) + rng.normal(0, 0.06, (60, 3))
    frames = [encode_frame(water + k, 3 * np.eye(3), k, float(k)) for k in range(3)]
    return [
        b"".join(frames),
        frames[0],
        encode_frame(1e5 * water, np.eye(3), 1, 1.0),
        encode_frame(water[:5], np.eye(3), 1, 1.0),
    ]


def hills():
    head = "#! FIELDS time phi psi sigma_phi sigma_psi height biasf\n#! SET multivariate false\n#! SET kerneltype "
    ends = "".join(
        f"#! SET {end}_{name} {sign}pi\n" for name in ("phi", "psi") for end, sign in (("min", "-"), ("max", ""))
    )
    rows = np.random.default_rng(0).uniform(-3, 3, (20, 2))
    text = "".join(f"{k:10.3f} {a:.9f} {b:.9f} 0.35 0.3 1.37 8\n" for k, (a, b) in enumerate(rows))
    states = "".join(f" {k:.6f} {a:.4f} {b:.4f}\n" for k, (a, b) in enumerate(rows))
    Path("whole.hills").write_text(whole := f"{head}gaussian\n{ends}{text}")
    Path("whole.colvar").write_text(f"#! FIELDS time phi psi\n{states}")
    return [whole.encode(), f"{head}stretched-gaussian\n{ends}{text}".encode()]


def states():
    hills()
    rows = np.random.default_rng(1).uniform(-3, 3, (20, 2))
    table = "".join(f"{k},{k / 1000},{a!r},{b!r}\n" for k, (a, b) in enumerate(rows.tolist()))
    return [Path("whole.colvar").read_bytes(), f"step,time [ps],phi,psi\n{table}".encode()]


def start_with_hills(path):
    phi, psi = sponge.cv.torsion(4, 6, 8, 14, name="phi"), sponge.cv.torsion(6, 8, 14, 16, name="psi")
    sponge.Metadynamics([phi, psi], 0.35, height=1.2, every=100, hills=path)
    sponge.Metadynamics.from_files(path, "whole.colvar", 300, grid=[90, 90])


def all_frames(path):
    trajectory = sponge.load_trajectory(path)
    for frame in trajectory[:5]:
        assert frame.positions.shape == (trajectory.n, 3)


QUANTUM = (CircuitError, GateError, ParameterError, ChannelError)
TARGETS = {
    "core": Target(core.load, lambda: written(core.save, *trees()), (FileFormatError,), ".safetensors", header_bombs),
    "core resealed": Target(
        core.load, lambda: written(core.save, *trees()), (FileFormatError,), ".safetensors", header_bombs, resealed
    ),
    "cache": Target(cached, cache_entry, (), ".bin"),
    "prmtop": Target(sponge.load, lambda: plain("ala2_vacuum/alanine-dipeptide.prmtop"), LOADING, ".prmtop"),
    "prmtop chamber": Target(sponge.load, lambda: plain("amber/chamber.prmtop.gz"), LOADING, ".prmtop"),
    "gzip": Target(
        sponge.load, lambda: [(DATA / "sponge/amber/nbfix.prmtop.gz").read_bytes()], LOADING, ".prmtop.gz", gzip_bombs
    ),
    "inpcrd": Target(
        read_restart, lambda: plain("ala2_vacuum/alanine-dipeptide.crd", "amber/chamber.rst7.gz"), LOADING, ".rst7"
    ),
    "netcdf": Target(read_restart, netcdf, LOADING, ".ncrst"),
    "gro": Target(read_gro, lambda: plain("parmed/peptide_amber.gro.gz"), LOADING, ".gro"),
    "gro.gz": Target(
        read_gro, lambda: [(DATA / "sponge/parmed/peptide_amber.gro.gz").read_bytes()], LOADING, ".gro.gz", gzip_bombs
    ),
    "top": Target(with_topology("top"), lambda: plain("parmed/amber99sb-ildn.top.gz"), LOADING, ".top"),
    "top with restraints": Target(lambda path: sponge.load(path, "whole.gro"), restrained, LOADING, ".top"),
    "psf": Target(with_topology("psf"), lambda: plain("parmed/peptide.psf.gz"), LOADING, ".psf"),
    # ParmEd's errors name the .psf
    "prm": Target(with_topology("prm"), lambda: plain("parmed/peptide.prm.gz"), LOADING, ".prm", names_file=False),
    "rtf": Target(with_topology("rtf"), lambda: plain("parmed/peptide.rtf.gz"), LOADING, ".rtf", names_file=False),
    "pdb": Target(read_pdb, lambda: plain("ala2_vacuum/ala2_vacuum.pdb"), LOADING, ".pdb"),
    "pdb trajectory": Target(all_frames, models, LOADING, ".pdb"),
    "netcdf trajectory": Target(
        all_frames, lambda: netcdf_trajectory() + Continued(sponge.NetCDF, ".nc").seeds(), LOADING, ".nc"
    ),
    "xtc": Target(all_frames, compressed, LOADING, ".xtc"),
    "trr": Target(all_frames, lambda: plain("formats/spc2-traj.trr", "formats/spc2-traj-double.trr"), LOADING, ".trr"),
    "gro trajectory": Target(all_frames, lambda: plain("formats/spc2-traj.gro"), LOADING, ".gro"),
    "h5md": Target(
        all_frames,
        lambda: plain("formats/spc2-traj.h5md") + Continued(sponge.H5MD, ".h5md").seeds(),
        LOADING,
        ".h5md",
    ),
    "hills": Target(start_with_hills, hills, (FileFormatError,), ".hills"),
    "states": Target(
        lambda path: sponge.Metadynamics.from_files("whole.hills", path, 300, grid=[90, 90]),
        states,
        (FileFormatError,),
        ".colvar",
    ),
    "dcd": Target(all_frames, Continued(sponge.DCD, ".dcd").seeds, LOADING, ".dcd"),
    # they name the residue
    "pdb with forcefield": Target(
        structure_files, lambda: plain("ala2_vacuum/ala2_vacuum.pdb"), LOADING, ".pdb", names_file=False
    ),
    "mmcif": Target(read_mmcif, cif, LOADING, ".cif"),
    "system xml": Target(
        sponge.load, lambda: plain("ala2_vacuum/system.xml.gz", "openmmtools/Diatom/system.xml.gz"), LOADING, ".xml"
    ),
    "ffxml": Target(sponge.ForceField, lambda: [FFXML], LOADING, ".xml"),
    **({"offxml": Target(ligand_of, lambda: [OFFXML], LOADING, ".offxml")} if find_spec("rdkit") else {}),
    "checkpoint": Target(resume, dimers_saved, (errors.CheckpointError,), ".chk", header_bombs),
    "checkpoint resealed": Target(resume, dimers_saved, (errors.CheckpointError,), ".chk", seal=resealed),
    **{
        f"{kind.__name__.lower()} continued": Target(c.read, c.seeds, (errors.ReporterError,), suffix)
        for kind, suffix in (
            (sponge.DCD, ".dcd"),
            (sponge.XTC, ".xtc"),
            (sponge.H5MD, ".h5"),
            (sponge.CSV, ".csv"),
            (sponge.NetCDF, ".nc"),
            (sponge.TRR, ".trr"),
            (sponge.GRO, ".gro"),
        )
        for c in [Continued(kind, suffix)]
    },
    "learn": Target(learn.load, networks, (FileFormatError,), ".safetensors"),
    "learn resealed": Target(learn.load, networks, (FileFormatError,), ".safetensors", seal=resealed),
    "training": Target(resume_training, trainings, (errors.CheckpointError,), ".safetensors"),
    "training resealed": Target(resume_training, trainings, (errors.CheckpointError,), ".safetensors", seal=resealed),
    "qasm 2": Target(text_of(program), lambda: QASM2, (QASMError,), names_file=False),
    "qasm 3": Target(text_of(program), lambda: QASM3, (QASMError,), names_file=False),
    "circuit json": Target(
        text_of(quantum.Circuit.from_json),
        circuits,
        QUANTUM,
        names_file=False,
        bombs=lambda: [b"[" * 50_000, b'{"format":' * 50_000],
    ),
    "pauli text": Target(
        text_of(quantum.PauliSum),
        lambda: [b"0.5 * X0 Y1 - 2.5e-1 Z3 + 1j * Z0 Z2"],
        (quantum.errors.OperatorError,),
        names_file=False,
    ),
    "policy": Target(use_policy, policies, (CheckpointError, FloatingPointError), ".safetensors", nested_text),
    "policy resealed": Target(
        use_policy, policies, (CheckpointError, FloatingPointError), ".safetensors", seal=resealed
    ),
    "agent checkpoint": Target(
        rl.PPO.load, lambda: written(lambda path, agent: agent.save(path), ppo()), (ReinforceError,), ".chk"
    ),
    "agent checkpoint resealed": Target(
        rl.PPO.load,
        lambda: written(lambda path, agent: agent.save(path), ppo()),
        (ReinforceError, FloatingPointError),
        ".chk",
        seal=resealed,
    ),
    "tree": Target(check_tree, searched, (SearchError,), ".safetensors", header_bombs),
    "tree resealed": Target(check_tree, searched, (SearchError,), ".safetensors", seal=resealed),
}
for _name, _target in TARGETS.items():
    _target.name = _name
