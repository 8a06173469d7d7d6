"""Run a molecular dynamics simulation that a file describes.

`triskele md template` writes such a file, with every option explained, and `triskele md run FILE` runs it.
`triskele md prepare protein.pdb` adds what a structure lacks, and writes a file that runs it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["arguments", "run"]

_CONFIG = """\
# {structure}, prepared at pH {ph:g}; `triskele md template` explains all options
[system]
files = "{prepared}"
forcefield = {forcefield}
constraints = "h-bonds"

[nonbonded]
method = "pme"
cutoff = 0.9

[integrator]
type = "LangevinMiddle"
temperature = 300
friction = 1.0
timestep = 0.002

[barostat]
type = "MonteCarloBarostat"
pressure = 1.0

[minimize]

[equilibrate]
heat = "50 ps"
release = "100 ps"
checkpoint = "equilibration"

[[report]]
type = "Log"
every = 5000

[[report]]
type = "XTC"
path = "trajectory.xtc"
every = 5000

[checkpoint]
path = "run.chk"
every = 50000

[run]
time = "1 ns"
resume = true
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(metavar="run|template|prepare", dest="action", required=True)
    run = actions.add_parser("run", help="run the simulation that a TOML file describes")
    run.add_argument("config", help="the file; paths in it are relative to its folder")
    template = actions.add_parser("template", help="write a file to start from, with all options and example molecules")
    template.add_argument("config", nargs="?", default="md.toml", help="name of the file, by default md.toml")
    prepare = actions.add_parser("prepare", help="add missing atoms, hydrogens, water and ions to a PDB or mmCIF file")
    prepare.add_argument("structure", help="the file; beside it come NAME-prepared.pdb and NAME.toml")
    prepare.add_argument("--forcefield", nargs="+", default=["amber14/protein.ff14SB", "amber14/tip3p"])
    prepare.add_argument("--ph", type=float, default=7.0)
    prepare.add_argument("--remove", help="atoms to leave out, such as 'water or ligand'")
    prepare.add_argument("--padding", type=float, default=1.0, help="least distance between images of the solute, nm")
    prepare.add_argument("--ionic-strength", type=float, default=0.15, help="of salt, mol/l")
    prepare.add_argument("--shape", default="dodecahedron", choices=["cube", "dodecahedron", "octahedron"])


def run(options: argparse.Namespace) -> None:
    """Run a file, or write one."""
    if options.action == "prepare":
        _prepare(options)
        return
    from triskele.sponge.run.config import run_config, write_template

    if options.action == "template":
        print(*write_template(options.config), sep="\n")
        print(f"run it with: triskele md run {options.config}")
        return
    sim = run_config(options.config)
    print(f"finished at step {sim.step}, {sim.time:g} ps")


def _prepare(given: argparse.Namespace) -> None:
    """Prepare a structure, and write it beside its file with a file that runs it."""
    from triskele import sponge

    path = Path(given.structure)
    prepared, config = path.with_name(f"{path.stem}-prepared.pdb"), path.with_suffix(".toml")
    for target in (prepared, config):
        if target.exists():
            raise FileExistsError(f"{target} exists already (move it away)")
    read = sponge.read_mmcif if path.suffix.lower() in (".cif", ".mmcif") else sponge.read_pdb
    options = {name: getattr(given, name) for name in ("ph", "remove", "padding", "ionic_strength", "shape")}
    ready, report = sponge.build.prepare(read(path), given.forcefield, **options)
    sponge.write_pdb(prepared, ready)
    names = "[" + ", ".join(f'"{name}"' for name in given.forcefield) + "]"
    config.write_text(_CONFIG.format(structure=path.name, ph=given.ph, prepared=prepared.name, forcefield=names))
    print(*report, prepared, config, f"run it with: triskele md run {config}", sep="\n")
