"""Write the page "Figures": times to first results, import times, size of an installation, number of public names.

`python -m tests.figures --output docs/pages/figures.md` measures on this machine, in an environment of its own, which
takes some minutes; without `--output` the page is printed. Nothing else should run meanwhile.
"""

import argparse
import datetime
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("core", "sponge", "quantum", "reinforce")
FIRST_RESULTS = {
    "core: loss and gradients of a network by `jit`": """
import numpy as np
from triskele import core
w = {"a": np.ones((4, 16)), "b": np.ones((16, 1))}
print(core.jit(core.value_and_grad(lambda w, x: np.mean((np.tanh(x @ w["a"]) @ w["b"]) ** 2)))(w, np.ones((32, 4)))[0])
""",
    "sponge: ten steps of a peptide in water, 2,269 atoms, PME": """
from triskele import sponge
files = sponge.example_files("alanine-dipeptide-water")
system = sponge.load(*files, method="pme", cutoff=0.9, constraints="h-bonds")
simulation = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), seed=1)
simulation.run(10)
print(simulation.energies()["potential"])
""",
    "quantum: energy and gradient of a circuit of 12 qubits": """
from triskele import quantum
lih = quantum.molecules.load("LiH", 1.5)
ansatz = quantum.uccsd(lih.num_electrons, lih.num_qubits)
print(quantum.Expectation(ansatz, lih.hamiltonian).value_and_grad([0.01] * len(ansatz.parameters))[0])
""",
    "reinforce: a search of connect four": """
from triskele import reinforce as rl
game = rl.games.ConnectFour()
search = rl.MCTS(game, simulations=1000, policy=rl.UCT(c=1.4), evaluator=rl.RandomRollout(), seed=0)
print(search(game.initial_state()).action)
""",
    "reinforce: first updates of PPO on CartPole": """
from triskele import reinforce as rl
print(rl.PPO("CartPole-v1", seed=0).train(2048).evaluate(episodes=1))
""",
}


TEXT = """\
# Figures

Measured on {date} by `python -m tests.figures` on {processor}, {cores} cores, Python {python}, at a load of
{load}. The command clones the repository, installs it with pip into an empty environment, and runs each script in
processes of its own.

## From clone to first result

{steps}

The time of `pip install` includes the download of NumPy, SciPy, Numba and tqdm, unless pip has them in its cache.

{results}

With an empty cache, a script compiles its kernels first; [Compile times](howto/compile-times.md) says how to avoid
that.

## Size of an installation

{sizes}

## Imports and public names

{imports}

Public names are those on the pages of the reference, each module counted for itself, without `core.numpy` and
`core.scipy`, which have the names of NumPy and SciPy.
"""


def seconds(command, **environment):
    """Wall time of a command that must succeed."""
    began = time.perf_counter()
    done = subprocess.run(
        command, env=os.environ | {"TRISKELE_QUIET": "1"} | environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{command}: exit status {done.returncode}\n{done.stderr}")
    return time.perf_counter() - began


def install(folder):
    """Clone the repository and install it into an environment of its own: its Python, and seconds of each step."""
    python = folder / "environment" / "bin" / "python"
    steps = {
        "clone": ["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", str(folder / "clone")],
        "environment": [sys.executable, "-m", "venv", str(python.parents[1])],
        "pip install": [str(python), "-m", "pip", "install", "--quiet", str(folder / "clone")],
    }
    times = {step: seconds(command, PYTHONPATH="") for step, command in steps.items()}
    return str(python), times


def megabytes(folder, pattern="*"):
    """Size of the files below a folder."""
    return sum(p.stat().st_size for top in folder.glob(pattern) for p in [top, *top.rglob("*")] if p.is_file()) / 1e6


def import_time(python, package):
    """Median seconds of an import in a fresh process, without the start of Python itself."""
    code = f"import time; t = time.perf_counter(); import triskele.{package}; print(time.perf_counter() - t)"
    found = [
        float(
            subprocess.run(
                [python, "-c", code], capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": ""}
            ).stdout
        )
        for _ in range(6)
    ]
    return statistics.median(found[1:])  # the first one compiles bytecode


def public_names():
    """Number of public names of each package, without the mirrors of NumPy and SciPy."""
    from tests.docs.public import REFERENCE

    return Counter(
        {
            name: len(names)
            for name, names in REFERENCE["public_modules"]().items()
            if not name.startswith(REFERENCE["MIRRORS"])
        }
    )


def table(title, rows):
    """A table of Markdown."""
    return "\n".join(
        [
            f"| {' | '.join(title)} |",
            f"| --- |{' ---: |' * (len(title) - 1)}",
            *(f"| {' | '.join(row)} |" for row in rows),
        ]
    )


def page(folder):
    """Measure, and return the page."""
    load = os.getloadavg()[0]  # of what else ran
    python, steps = install(folder)
    site = next((folder / "environment" / "lib").glob("python*")) / "site-packages"
    results = []
    for name, code in FIRST_RESULTS.items():
        cache = str(folder / "kernels" / name)
        cold, warm, again = (seconds([python, "-c", code], PYTHONPATH="", TRISKELE_CACHE_DIR=cache) for _ in range(3))
        results.append((name, f"{cold:.1f} s", f"{min(warm, again):.1f} s"))
    names = public_names()
    totals = {p: sum(n for module, n in names.items() if module.split(".")[1] == p) for p in PACKAGES}
    sizes = [
        ("triskele", f"{megabytes(site, 'triskele'):.1f}"),
        ("with all that it requires, and pip", f"{megabytes(site):.0f}"),
    ]
    imports = [(f"`triskele.{p}`", f"{import_time(python, p):.2f} s", str(totals[p])) for p in PACKAGES]
    return TEXT.format(
        date=f"{datetime.date.today():%Y-%m-%d}",
        processor=processor(),
        cores=os.cpu_count(),
        python=platform.python_version(),
        load=f"{load:.1f}",
        steps=table(("step", "time"), [(step, f"{time:.1f} s") for step, time in steps.items()]),
        results=table(("whole process, with imports", "empty kernel cache", "kernels on disk"), results),
        sizes=table(("", "MB"), sizes),
        imports=table(("package", "import", "public names"), imports),
    )


def processor():
    """The processor by its name."""
    cpuinfo = Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        if cpuinfo.exists()
        else []
    )
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, help="file to write")
    output = parser.parse_args().output
    with tempfile.TemporaryDirectory() as temporary:
        text = page(Path(temporary))
    if output:
        output.write_text(text)
    else:
        print(text)
