"""Runs from TOML files: the same as in Python; every unknown key is an error that names the nearest known ones."""

import inspect
import re
import shutil
import textwrap
from pathlib import Path

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge.errors import CheckpointError
from triskele.sponge.run import config
from triskele.sponge.run.config import ConfigError, read_config, run_config

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data" / "sponge" / "ala2_vacuum"
SYSTEM = """
[system]
files = ["alanine-dipeptide.prmtop", "alanine-dipeptide.crd"]
constraints = "h-bonds"
"""
INTEGRATOR = """
[integrator]
type = "LangevinMiddle"
temperature = 300
friction = 1.0
timestep = 0.002
"""


@pytest.fixture
def folder(tmp_path):
    for name in ("alanine-dipeptide.prmtop", "alanine-dipeptide.crd"):
        shutil.copy(DATA / name, tmp_path)
    return tmp_path


def write(folder, text):
    path = folder / "config.toml"
    path.write_text(textwrap.dedent(text))
    return path


# -- runs --------------------------------------------------------------------------------------------------------------

FULL = (
    SYSTEM
    + INTEGRATOR
    + """
[nonbonded]
method = "none"

[simulation]
seed = 4
precision = "double"

[minimize]
max_steps = 20

[[report]]
type = "CSV"
path = "energies.csv"
every = 10

[[report]]
type = "DCD"
path = "traj.dcd"
every = 5

[checkpoint]
path = "run.chk"
every = 40

[run]
{run}
resume = true
"""
)


def test_a_file_makes_the_run_that_python_makes(folder):
    sim = run_config(write(folder, FULL.replace("{run}", "steps = 50")))
    system = sponge.load(folder / "alanine-dipeptide.prmtop", folder / "alanine-dipeptide.crd", constraints="h-bonds")
    system.nonbonded.update(method="none")
    other = sponge.Simulation(
        system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002), seed=4, precision="double"
    )
    other.minimize(max_steps=20)
    other.run(50, report=sponge.Checkpoint(folder / "other.chk", 40))
    assert sim.step == 50 and np.array_equal(sim.positions, other.positions)
    assert len((folder / "energies.csv").read_text().splitlines()) == 6


def test_the_same_file_again_goes_on_from_the_checkpoint(folder):
    whole = run_config(write(folder, FULL.replace("{run}", 'time = "0.24 ps"')))
    expected = (folder / "traj.dcd").read_bytes(), (folder / "energies.csv").read_bytes()
    for name in ("traj.dcd", "energies.csv", "run.chk"):
        (folder / name).unlink()
    run_config(write(folder, FULL.replace("{run}", "steps = 90")))  # as if it were killed: the checkpoint is at step 80
    resumed = run_config(write(folder, FULL.replace("{run}", "steps = 120")))
    assert resumed.step == whole.step == 120 and np.array_equal(resumed.positions, whole.positions)
    assert ((folder / "traj.dcd").read_bytes(), (folder / "energies.csv").read_bytes()) == expected
    with pytest.raises(CheckpointError, match="must be of a run from step 0 to 100, got step 120"):
        run_config(write(folder, FULL.replace("{run}", "steps = 100")))
    with pytest.raises(ConfigError, match="is at step 120 already, which is 20 steps too far"):
        run_config(write(folder, FULL.replace("{run}", "steps = 100").replace("resume = true", "resume = 'run.chk'")))


def test_changes_count_from_step_0_in_a_run_that_is_resumed(folder):
    change = (
        '[change]\ntemperature = {start = 50, end = 150, over = "0.1 ps"}\n"bond/k" = [[0, 1e3], ["0.1 ps", 2e3]]\n'
    )
    begin = FULL.replace("[run]", change + "[run]")
    whole = run_config(write(folder, begin.replace("{run}", 'time = "0.24 ps"')))
    table = (folder / "energies.csv").read_text()
    end = pytest.approx([150.0, 2000.0])
    for name in ("traj.dcd", "energies.csv", "run.chk"):
        (folder / name).unlink()
    run_config(write(folder, begin.replace("{run}", "steps = 90")))  # ends in the ramp; the checkpoint is at step 80
    resumed = run_config(write(folder, begin.replace("{run}", "steps = 120")))
    assert np.array_equal(resumed.positions, whole.positions) and (folder / "energies.csv").read_text() == table
    heading, *lines = table.splitlines()
    assert heading.endswith(",set temperature,set bond/k")
    assert [float(word) for word in lines[-1].split(",")[-2:]] == end
    with pytest.raises(ConfigError, match=r"\[change\] temperature: .*'to'"):
        run_config(write(folder, begin.replace("end =", "to =").replace("{run}", "steps = 130")))


@pytest.mark.slow
def test_implicit_solvent_and_every_key_of_the_page(folder):
    sim = run_config(
        write(
            folder,
            SYSTEM
            + INTEGRATOR
            + """
        [implicit_solvent]
        model = "obc2"
        solvent_dielectric = 80.0
        [run]
        steps = 5
    """,
        )
    )
    assert "gb" in sim.system and sim.step == 5
    cut = '[nonbonded]\nmethod = "reaction_field"\ncutoff = 0.5\n[implicit_solvent]\nmodel = "obc2"\n[run]\nsteps = 5\n'
    system = run_config(write(folder, SYSTEM + INTEGRATOR + cut)).system
    assert (system["gb"].cutoff, system.nonbonded.method, system.nonbonded.dielectric) == (0.5, "reaction_field", 1.0)


def test_the_template_documents_every_key_and_runs(tmp_path, monkeypatch):
    """Every option of every section stands in it, and every commented option is one that the reader takes."""
    path, *files = config.write_template(tmp_path / "md.toml")
    assert all(f.parent == tmp_path for f in files)
    text = path.read_text()
    known, check_known = [], config._known
    monkeypatch.setattr(
        config,
        "_known",
        lambda where, names, allowed, what: (
            known.append((where, set(allowed))),
            check_known(where, names, allowed, what),
        ),
    )
    read_config(path)
    words = set(re.findall(r"[\w-]+", text))
    assert not [(where, missing) for where, allowed in known if (missing := allowed - words)]
    alternatives = {name for what in ("integrator", "barostat") for name in config._types(what)}
    assert alternatives | set(config._REPORTERS) <= words
    commented = {key for key in re.findall(r"^# (\w+) = ", text, re.M)}
    assert (
        not commented
        - set.union(*(allowed for _, allowed in known))
        - {
            "constraint_tolerance",
            "model",
            "solvent_dielectric",
            "solute_dielectric",
            "kappa",
            "surface_tension",
            "relaxation_time",
            "compressibility",
            "velocities",
            "double",
            *inspect.signature(sponge.Simulation.equilibrate).parameters,
        }
    )
    path.write_text(text.replace('time = "10 ps"', "steps = 10").replace("every = ", "every = 5 #"))
    assert run_config(path).step == 10
    with pytest.raises(FileExistsError, match="exists already"):
        config.write_template(path)


def test_options_of_the_template_are_taken_when_they_are_uncommented(tmp_path):
    path, *_ = config.write_template(tmp_path / "md.toml")
    text = path.read_text()
    head, *sections = re.split(r"^(?=\[)", text, flags=re.M)
    chosen = [re.sub(r"^# (?!type)(\w+ = )", r"\1", s, flags=re.M).split("# type")[0] for s in sections]
    text = "".join(chosen)
    for name in ("implicit_solvent", "equilibrate", "change"):
        text = text.replace(f"# [{name}]", f"[{name}]")
    log = text.replace("velocities = false", "").replace("double = false", "")
    path.write_text(log)
    assert set(read_config(path)) == set(config._SECTIONS)


# -- mistakes ----------------------------------------------------------------------------------------------------------

RUN = "[run]\nsteps = 1\n"


@pytest.mark.parametrize(
    "text, message",
    [
        ("[run\n", "must be a TOML file: "),
        (SYSTEM + INTEGRATOR, r"section \[run\] is missing"),
        (INTEGRATOR + RUN, r"section \[system\] is missing"),
        (
            SYSTEM + INTEGRATOR + RUN + "[integrater]\n",
            r"the file has no section 'integrater' \(did you mean 'integrator'\? known: system, ",
        ),
        (
            SYSTEM + INTEGRATOR.replace("friction", "fricton") + RUN,
            r"\[integrator\] LangevinMiddle has no key 'fricton' \(did you mean 'friction'\?",
        ),
        (
            SYSTEM + INTEGRATOR.replace("friction = 1.0", "") + RUN,
            r"\[integrator\] LangevinMiddle: key 'friction' is missing",
        ),
        (
            SYSTEM + INTEGRATOR.replace("Middle", "") + RUN,
            r"\[integrator\] has no type 'Langevin' \(did you mean 'DrudeLangevin' or 'LangevinMiddle'\?",
        ),
        (SYSTEM + "[integrator]\n" + RUN, r"\[integrator\]: key 'type' is missing \(one of .*VelocityVerlet\)"),
        (
            SYSTEM.replace("constraints", "constraint") + INTEGRATOR + RUN,
            r"\[system\] has no key 'constraint' \(did you mean 'constraints'",
        ),
        (
            SYSTEM + INTEGRATOR + RUN + "[nonbonded]\ncut_off = 1.0\n",
            r"\[nonbonded\] has no key 'cut_off' \(did you mean 'cutoff'",
        ),
        (
            SYSTEM + INTEGRATOR + RUN + "[barostat]\ntype = 'Berendsen'\n",
            r"\[barostat\] has no type 'Berendsen' \(known: .*MonteCarloBarostat",
        ),
        (
            SYSTEM + INTEGRATOR + RUN + "[report]\ntype = 'CSV'\n",
            r"report: must be a section, \[\[report\]\], once for each reporter",
        ),
        (
            SYSTEM + INTEGRATOR + RUN + "[[report]]\ntype = 'CVS'\n",
            r"\[\[report\]\] has no type 'CVS' \(did you mean 'CSV'",
        ),
        (
            SYSTEM + INTEGRATOR + RUN + "[[report]]\ntype = 'DCD'\npath = 'a'\n",
            r"\[\[report\]\] DCD: key 'every' is missing",
        ),
        (
            SYSTEM + INTEGRATOR + RUN + "[checkpoint]\nfile = 'a'\n",
            r"\[checkpoint\] has no key 'file' \(known: path, every\)",
        ),
        (
            SYSTEM + INTEGRATOR + RUN + "[simulation]\nsede = 3\n",
            r"\[simulation\] has no key 'sede' \(did you mean 'seed'",
        ),
        (
            SYSTEM + INTEGRATOR + RUN + "[minimize]\nsteps = 3\n",
            r"\[minimize\] has no key 'steps' \(did you mean 'max_steps'",
        ),
        ("run = 3\n" + SYSTEM + INTEGRATOR, r"run: must be a section, \[run\]"),
    ],
)
def test_keys_are_checked_before_anything_is_done(folder, text, message):
    path = write(folder, text)
    with pytest.raises(ConfigError, match=f"^{path}: {message}"):
        read_config(path)


@pytest.mark.parametrize(
    "text, error, message",
    [
        (
            SYSTEM + INTEGRATOR.replace("300", '"300 K"') + RUN,
            ValueError,
            "temperature must be a positive number, got '300 K'",
        ),
        (SYSTEM.replace('.crd"', '.inpcrd"') + INTEGRATOR + RUN, FileNotFoundError, "alanine-dipeptide.inpcrd"),
        (
            SYSTEM + INTEGRATOR + "[run]\nresume = true\nsteps = 1\n",
            ConfigError,
            r"resume = true needs a section \[checkpoint\]",
        ),
        (SYSTEM + INTEGRATOR + "[run]\nresume = 'a.chk'\nsteps = 1\n", FileNotFoundError, "a.chk"),
        (SYSTEM + INTEGRATOR + "[run]\n", ValueError, "either a number of steps or a time"),
        (SYSTEM + INTEGRATOR + RUN + "[nonbonded]\nmethod = 'pmee'\n", ValueError, "method must be one of"),
        (
            SYSTEM + INTEGRATOR + RUN + "[[report]]\ntype = 'CSV'\npath = 'a'\nevery = 0\n",
            ValueError,
            "CSV: every must be an integer",
        ),
        (SYSTEM + INTEGRATOR + RUN + "[simulation]\nseed = 'a'\n", ValueError, "seed must be"),
    ],
)
def test_values_are_checked_by_those_who_use_them(folder, text, error, message):
    with pytest.raises(error, match=message):
        run_config(write(folder, text))
