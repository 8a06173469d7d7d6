"""Runs described by a TOML file: the same names and options as in Python, every key checked.

``template.toml``, next to this module, documents all of them.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from triskele.core.extend import TriskeleError, check, discover

from .. import load, report
from ..load.systems import example_files
from .arguments import number_of_steps
from .changes import ramp
from .simulation import Simulation

__all__ = ["ConfigError", "read_config", "run_config", "write_template"]

_SECTIONS = (
    "system",
    "nonbonded",
    "implicit_solvent",
    "integrator",
    "barostat",
    "simulation",
    "minimize",
    "equilibrate",
    "report",
    "checkpoint",
    "change",
    "run",
)
_REPORTERS = {
    name: getattr(report, name) for name in ("CSV", "DCD", "GRO", "H5MD", "Log", "NetCDF", "PDB", "TRR", "XTC")
}


class ConfigError(TriskeleError, ValueError):
    """A configuration file has an unknown or missing key."""


def read_config(path: str | os.PathLike) -> dict[str, Any]:
    """Return the sections of a configuration file, their names and those of all keys checked."""
    path = Path(path)
    try:
        config = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: must be a TOML file: {error}") from error
    with _prefixed(path):
        _known("the file", config, _SECTIONS, "section")
        for name, section in config.items():
            many = name == "report"
            if not (
                isinstance(section, list) and all(isinstance(s, dict) for s in section)
                if many
                else isinstance(section, dict)
            ):
                raise ConfigError(
                    f"{name}: must be a section, "
                    f"[{'[report]' if many else name}]{', once for each reporter' if many else ''}"
                )
        for name in ("system", "integrator", "run"):
            if name not in config:
                raise ConfigError(f"section [{name}] is missing")
        _check_keys(config)
    return config


def run_config(path: str | os.PathLike) -> Simulation:
    """Make the run that a configuration file describes, and return the simulation at its end.

    All files are looked for, and written, in the folder of the configuration file. Values of a wrong type raise
    ConfigError.
    """
    path = Path(path)
    config = read_config(path)
    with contextlib.chdir(path.parent), _prefixed(path):
        sim = _simulation(config)
        reporters = [
            _called(f"[[report]] {s['type']}", _REPORTERS[s["type"]], _without(s, "type"))
            for s in config.get("report", ())
        ]
        saver = _called("[checkpoint]", report.Checkpoint, config["checkpoint"]) if "checkpoint" in config else None
        run, change = config["run"], config.get("change", {})
        resume, steps = run.get("resume", False), number_of_steps(run.get("steps"), run.get("time"), sim.timestep)
        if not isinstance(resume, bool | str):
            raise ConfigError(f"[run]: resume must be true, false or a path, got {resume!r}")
        if resume is True and saver is None:
            raise ConfigError("[run]: resume = true needs a section [checkpoint]")
        if isinstance(resume, str):
            sim.load(resume)
            steps -= sim.step
            if steps < 0:
                raise ConfigError(f"[run]: {resume!r} is at step {sim.step} already, which is {-steps} steps too far")
        elif not (resume and saver is not None and os.path.exists(saver.path)):
            for name in ("minimize", "equilibrate"):
                if name in config:
                    _called(f"[{name}]", getattr(sim, name), config[name])
        ramps = {name: _called(f"[change] {name}", ramp, v) for name, v in change.items() if isinstance(v, dict)}
        if saver is not None and resume is not True:
            reporters.append(saver)
    with contextlib.chdir(path.parent):
        sim.run(steps, report=reporters, checkpoint=saver if resume is True else None, change=change | ramps)
    return sim


def write_template(path: str | os.PathLike) -> list[Path]:
    """Write a file with all keys and what they mean, and beside it the files of a peptide in water that it runs.

    Return the paths; if one of the files is there already, raise FileExistsError and write none.
    """
    path = Path(path)
    sources = [Path(__file__).with_name("template.toml"), *example_files("alanine-dipeptide-water")]
    targets = [path, *(path.with_name(source.name) for source in sources[1:])]
    for target in targets:
        if target.exists():
            raise FileExistsError(f"{target} exists already (choose another name, or move it away)")
    for source, target in zip(sources, targets, strict=True):
        shutil.copyfile(source, target)
    return targets


def _simulation(config):
    section = config["system"]
    options = _without(section, "files")
    if "implicit_solvent" in config:
        gb = config["implicit_solvent"]
        options |= {"implicit_solvent": gb["model"], **_without(gb, "model"), **config.get("nonbonded", {})}
    files = [section["files"]] if isinstance(section["files"], str) else section["files"]
    system = _called("[system]", load.load, options, *files)
    if "nonbonded" in config:
        _called("[nonbonded]", system.nonbonded.update, config["nonbonded"])
    parts = {}
    for name in ("integrator", "barostat"):
        if name in config:
            parts[name] = _called(f"[{name}]", _types(name)[config[name]["type"]], _without(config[name], "type"))
    return _called("[simulation]", Simulation, {**parts, **config.get("simulation", {})}, system)


# -- names -------------------------------------------------------------------------------------------------------------


def _check_keys(config):
    from ..forcefield.create import create_system
    from ..potentials.gb.gb import GB
    from ..potentials.nonbonded.nonbonded import Nonbonded

    nonbonded = _arguments(Nonbonded)
    nonbonded = [n for n in nonbonded[nonbonded.index("method") :] if n not in ("mixing", "name")]
    gb = [name for name, p in inspect.signature(GB).parameters.items() if isinstance(p.default, float)]
    loading = [name for name, p in inspect.signature(create_system).parameters.items() if p.kind is p.KEYWORD_ONLY]
    _section(
        config,
        "system",
        ["files", "forcefield", *(n for n in loading if n not in ("method", "implicit_solvent"))],
        ["files"],
    )
    _section(config, "nonbonded", nonbonded)
    _section(config, "implicit_solvent", ["model", *gb], ["model"])
    _section(config, "simulation", ["seed", "precision"])
    for name in ("minimize", "equilibrate"):
        _section(config, name, [n for n in _arguments(getattr(Simulation, name)) if n != "report"])
    _section(config, "checkpoint", *_both(report.Checkpoint))
    _section(config, "run", ["steps", "time", "resume"])
    for name in ("integrator", "barostat"):
        if name in config:
            _typed(f"[{name}]", config[name], _types(name))
    for section in config.get("report", ()):
        _typed("[[report]]", section, _REPORTERS)


def _typed(where: str, section: dict[str, Any], types: dict[str, type]) -> None:
    if "type" not in section:
        raise ConfigError(f"{where}: key 'type' is missing (one of {', '.join(types)})")
    _known(where, [section["type"]], types, "type")
    names, needed = _both(types[section["type"]])
    where = f"{where} {section['type']}"
    _known(where, section, ["type", *names], "key")
    _needed(where, section, needed)


def _section(config, name: str, known: Iterable[str], needed: Iterable[str] = ()) -> None:
    if name in config:
        _known(f"[{name}]", config[name], known, "key")
        _needed(f"[{name}]", config[name], needed)


def _known(where: str, names: Iterable[str], known: Iterable[str], what: str) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            raise ConfigError(f"{where} has no {what} {name!r}{check.near(name, known, listing=True)}")


def _needed(where: str, section: dict[str, Any], needed: Iterable[str]) -> None:
    for name in needed:
        if name not in section:
            raise ConfigError(f"{where}: key {name!r} is missing")


def _types(what: str) -> dict[str, type]:
    """Classes of integrators or barostats by name: all that the modules of the package offer."""
    modules = discover.modules(f"triskele.sponge.{what}s")
    base = getattr(modules[what], what.capitalize())
    return {
        name: value
        for module in modules.values()
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }


def _arguments(function: Callable) -> list[str]:
    return [
        name
        for name, p in inspect.signature(function).parameters.items()
        if name != "self" and p.kind is not p.VAR_KEYWORD
    ]


def _both(function: Callable) -> tuple[list[str], list[str]]:
    """Names of all arguments, and of those without which the call fails."""
    parameters = inspect.signature(function).parameters
    return _arguments(function), [
        name for name in _arguments(function) if parameters[name].default is inspect.Parameter.empty
    ]


def _called(where: str, function: Callable, options: dict[str, Any], *args: Any) -> Any:
    try:
        return function(*args, **options)
    except TypeError as error:
        raise ConfigError(f"{where}: {error}") from error


def _without(section: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in section.items() if name != key}


@contextlib.contextmanager
def _prefixed(path: Path):
    """Errors of the configuration begin with its path."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error.__cause__
