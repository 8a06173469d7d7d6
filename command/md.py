"""Run a molecular dynamics simulation that a file describes.

`triskele md template` writes such a file, with every option explained, and `triskele md run FILE` runs it.
"""

from __future__ import annotations

import argparse

__all__ = ["arguments", "run"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(metavar="run|template", dest="action", required=True)
    run = actions.add_parser("run", help="run the simulation that a TOML file describes")
    run.add_argument("config", help="the file; paths in it are relative to its folder")
    template = actions.add_parser("template", help="write a file to start from, with all options and example molecules")
    template.add_argument("config", nargs="?", default="md.toml", help="name of the file, by default md.toml")


def run(options: argparse.Namespace) -> None:
    """Run a file, or write one."""
    from triskele.sponge.run.config import run_config, write_template

    if options.action == "template":
        print(*write_template(options.config), sep="\n")
        print(f"run it with: triskele md run {options.config}")
        return
    sim = run_config(options.config)
    print(f"finished at step {sim.step}, {sim.time:g} ps")
