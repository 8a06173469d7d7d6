"""Every example runs as a user would run it, ends well and leaves its picture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triskele.command.demo import PARTS

ROOT = Path(__file__).parents[2]
EXAMPLES = {path.name: path for path in sorted((ROOT / "examples").rglob("*.py"))}
SHORTER = {  # arguments of examples that take as long as they are asked to
    "alanine_vacuum.py": "--ns 1",
    "alanine_water.py": "--ns 0.002 --learn 0.0102 --folder run",
    "alphazero_connect_four.py": "--games 100",
    "circuit_search.py": "--simulations 20",
    "dna_dinucleotide.py": "--ns 0.008 --learn 0.0204 --equilibrate 1 --folder run",
    "fit_lennard_jones.py": "--rounds 1 --steps 3000",
    "fit_water_charge.py": "--rounds 1",
    "gumbel_muzero.py": "--steps 5000",
    "hydration.py": "--molecules methanol --time 1 --states 5",
    "ionic_liquid.py": "--pairs 36 --time 2",
    "ionic_liquid_charges.py": "--epochs 5",
    "lysine_dipeptide.py": "--ns 0.2",
    "maxcut_qaoa_mcts.py": "--graphs 2",
    "melting_copper.py": "--cells 5 5 6 --time 0.4 --temperatures 1200 1400",
    "metadynamics.py": "--ns 1",
    "network_sits.py": "--steps 100000 --epochs 5",
    "replica_exchange.py": "--time 0.2ns",
    "segment_cells.py": "--epochs 3",
    "shakespeare.py": "--steps 100",
    "sits_peptide.py": "--ns 0.002 --learn 0.0102 --seed 2 --equilibrate 2 --folder run",
    "sits_torsion.py": "--steps 1000000",
    "solvated_peptide.py": "--time 4ps",
    "train_cifar.py": "--epochs 2",
    "train_potential.py": "--epochs 5",
    "umbrella_sampling.py": "--time 20ps",
}
# Those of `make demo`. Pages and READMEs run the same calls as the others, which run at night and where they change.
DEMO = {f"{part.script}.py" for part in PARTS}


def check_example(name, folder):
    picture = folder / f"{name}.png"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".src"), "MPLCONFIGDIR": str(folder)}
    run = subprocess.run(
        [sys.executable, EXAMPLES[name], "--output", picture, *SHORTER.get(name, "").split()],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=900,
    )  # busy machines
    assert run.returncode == 0, run.stdout + run.stderr
    assert picture.stat().st_size > 5000


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in DEMO else pytest.mark.slow)
        for name in EXAMPLES
        if name != "alanine_water.py"
    ],
)
def test_example(name, tmp_path):
    check_example(name, tmp_path)
    if name == "sits_peptide.py":
        check_example("alanine_water.py", tmp_path)  # continues with the same equilibrated box


def test_every_example_has_a_name_of_its_own():
    assert len(EXAMPLES) == len(list((ROOT / "examples").rglob("*.py"))) and SHORTER.keys() <= EXAMPLES.keys()
