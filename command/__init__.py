"""The command `triskele`: one module of this package for each subcommand.

A module's docstring is the help of its subcommand, ``arguments(parser)`` declares the arguments, and ``run(options)``
does the work. Importing these modules loads neither NumPy nor the four packages, so that help comes at once.
"""

from __future__ import annotations

if __name__ != "triskele.command":
    raise ImportError(f"import this package as triskele.command, not as {__name__!r}")

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import triskele

__all__ = ["CHECKOUT", "PACKAGES", "SUBCOMMANDS", "main"]

PACKAGES = ("core", "sponge", "quantum", "reinforce")
_ROOT = Path(__file__).resolve().parents[1]
CHECKOUT = _ROOT if (_ROOT / "pyproject.toml").is_file() else None  # the folder of the sources
SUBCOMMANDS = ("info", "warmup", "cache", "demo", "examples", "bench", "md", "play")


class _Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        if choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            from triskele.core.extend import check

            given, known = choice[1], [name.strip("' ") for name in choice[2].split(",")]
            message = f"no such name {given!r}{check.near(given, known, listing=True)}"
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Defaults to those of the process.

    Returns
    -------
    int
        The exit status: 0, 1 if the work failed, 2 for an error of the user, 130 after Ctrl-C. An error is reported
        in one line on stderr.
    """
    parser = _Parser(prog="triskele", description=str(triskele.__doc__).partition("\n")[0])
    parser.add_argument("--version", action="version", version=f"triskele {triskele.__version__}")
    subparsers = parser.add_subparsers(metavar="command", required=True)
    for name in SUBCOMMANDS:
        module = import_module(f"{__name__}.{name}")
        summary = str(module.__doc__).partition("\n")[0]
        subparser = subparsers.add_parser(
            name,
            help=summary[0].lower() + summary[1:].rstrip("."),
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.arguments(subparser)
        subparser.set_defaults(run=module.run, name=name)
    options = parser.parse_args(arguments)
    try:
        return options.run(options) or 0
    except KeyboardInterrupt as stop:
        print(f"\ntriskele {options.name}: {stop or 'interrupted'}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError, ImportError) as error:
        return _report(options.name, error, 2)
    except (RuntimeError, ArithmeticError) as error:
        return _report(options.name, error, 1)


def _report(name: str, error: Exception, status: int) -> int:
    message = str(error).removeprefix(f"{name}: ")
    print("\n".join([f"triskele {name}: {message}", *getattr(error, "__notes__", ())]), file=sys.stderr)
    return status
