"""``python -m triskele.sponge run config.toml``: a run without a line of Python; see `config` for what the file may
hold.
"""

from __future__ import annotations

import argparse
import sys


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, make the run, and say in one line what went wrong; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m triskele.sponge",
                                     description="Molecular dynamics from a configuration file.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="make the run that a TOML file describes")
    run.add_argument("config", help="the file; its paths are relative to its folder")
    options = parser.parse_args(arguments)

    from .run.config import run_config

    try:
        sim = run_config(options.config)
    except KeyboardInterrupt as stop:
        print(stop or "interrupted", file=sys.stderr)
        return 130
    except (ValueError, RuntimeError, ArithmeticError, OSError, ImportError) as error:
        print("\n".join([f"error: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 1
    print(f"finished at step {sim.step}, {sim.time:g} ps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
