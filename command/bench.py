"""Run the benchmarks against other programs; needs a checkout of the sources.

The benchmarks and the scripts that run other programs are not part of an installation.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from . import CHECKOUT, PACKAGES

__all__ = ["arguments", "run"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("package", choices=PACKAGES, metavar="package", help=f"one of {', '.join(PACKAGES)}")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of the benchmark; --help shows them")


def run(options: argparse.Namespace) -> int:
    """Run the benchmark of one package in the checkout."""
    if CHECKOUT is None:
        raise FileNotFoundError(
            "the benchmarks are not installed: run `triskele bench` in a checkout of the sources, "
            'after `pip install -e ".[bench]"` there, which installs the programs to compare with'
        )
    command = [sys.executable, "-m", "tests.benchmarks", options.package, *options.options]
    return subprocess.run(command, cwd=CHECKOUT).returncode
