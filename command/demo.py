"""Run one example of each package and gather their pictures and numbers in one page.

The page, `index.html` in the folder of the results, holds everything that it shows and can be sent to others.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from . import PACKAGES, examples

__all__ = ["PARTS", "Part", "Result", "arguments", "run", "run_part"]


class Part(NamedTuple):
    """One example of the demo."""

    package: str
    script: str  # name of the example
    title: str
    text: str  # what it does
    seconds: int  # on two cores of a desktop
    compiling: int  # seconds more where nothing is compiled yet
    options: tuple[str, ...] = ()  # of the script
    numbers: tuple[tuple[str, str], ...] = ()  # labels, and patterns of the output whose groups are the numbers


class Result(NamedTuple):
    """How a part ended."""

    part: Part
    seconds: float
    output: str  # what the script printed
    picture: Path

    @property
    def numbers(self) -> list[tuple[str, str]]:
        """Labels and numbers found in the output."""
        found = ((label, re.search(pattern, self.output)) for label, pattern in self.part.numbers)
        return [(label, ", ".join(match.groups())) for label, match in found if match]


PARTS = (
    Part(
        "core",
        "fit_ode",
        "Differential equations fitted to data",
        "Fits the Lotka-Volterra equations to the fur trade's counts of hares and lynxes, with gradients through the "
        "whole integration; the Hessian gives the standard errors.",
        5,
        10,
        numbers=(
            ("growth of hares, alpha", r"alpha +([\d.]+)"),
            ("growth of lynxes, delta", r"delta +([\d.]+)"),
            ("values with gradients", r"(\d+) evaluations"),
        ),
    ),
    Part(
        "sponge",
        "solvated_peptide",
        "A peptide in water",
        "Minimizes alanine dipeptide in a box of water, lets the box find its density at 300 K and 1 bar, and records "
        "the backbone torsions.",
        20,
        20,
        numbers=(
            ("temperature / K", r"temperature ([\d.]+) K"),
            ("density / g/cm³, TIP3P: 0.98", r"density ([\d.]+) g"),
        ),
    ),
    Part(
        "quantum",
        "vqe_lih",
        "The ground state of lithium hydride",
        "Trains a circuit of 92 excitations on 12 qubits with exact gradients, and follows the energy along the bond.",
        10,
        20,
        numbers=(
            ("millihartree above the exact energy", r"([\d.]+) millihartree above FCI"),
            ("seconds of training", r"gradients in ([\d.]+) s"),
        ),
    ),
    Part(
        "reinforce",
        "alphazero_connect_four",
        "Connect four, learned from the rules alone",
        "Trains AlphaZero by games against itself, and lets it play 100 games against a plain tree search that may "
        "look five times as far.",
        120,
        20,
        numbers=(
            ("score against plain search", r"AlphaZero, .* (\d+\.\d %)"),
            ("wins, draws, losses", r"AlphaZero, 200 simulations +(\d+) +(\d+) +(\d+)"),
        ),
    ),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("packages", nargs="*", metavar="package", help=f"any of {', '.join(PACKAGES)}; all by default")
    parser.add_argument(
        "--output", default="triskele-demo", metavar="FOLDER", help="folder of the results, by default triskele-demo"
    )


def run(options: argparse.Namespace) -> int:
    """Run the parts, then write the page."""
    from triskele.core.extend import check, optional

    from .page import write_page

    for name in options.packages:
        if name not in PACKAGES:
            raise ValueError(f"packages must be among {', '.join(PACKAGES)}, got {name!r}{check.near(name, PACKAGES)}")
    optional.need("matplotlib", "demo", "plot")
    parts = [part for part in PARTS if part.package in (options.packages or PACKAGES)]
    folder = Path(options.output).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    total = sum(part.seconds for part in parts)
    print(
        f"{len(parts)} part{'s' * (len(parts) > 1)}, about {_minutes(total)} on two cores, and up to "
        f"{_minutes(sum(part.compiling for part in parts))} more to compile kernels, once on this machine"
    )
    began, results = time.perf_counter(), []
    for k, part in enumerate(parts, 1):
        print(
            f"\n[{k}/{len(parts)}] {part.title} (triskele.{part.package}), about {part.seconds} s\n{part.text}\n",
            flush=True,
        )
        results.append(run_part(part, folder))
    page = write_page(folder / "index.html", results)
    print(f"\nAll done in {_minutes(time.perf_counter() - began)}. Open this page in a browser:\n{page}")
    return 0


def run_part(part: Part, folder: Path) -> Result:
    """Run one part in a process of its own, pass on what it prints, and put its picture into `folder`."""
    picture = folder / f"{part.script}.png"
    command = [sys.executable, str(examples.find(part.script)), "--output", str(picture), *part.options]
    began, lines = time.perf_counter(), []
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"},
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise RuntimeError(f"the part {part.title!r} must end well, got exit status {process.returncode}")
    return Result(part, time.perf_counter() - began, "".join(lines), picture)


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{rest} s" if not minutes else f"{minutes} min {rest:02d} s"
