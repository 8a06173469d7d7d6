"""Checkpoint files, and what they say about the system they belong to."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from triskele.core.extend import archive, check

from ..errors import CheckpointError
from ..fingerprint import fingerprint_of
from ..integrators.center_of_mass import acts_on
from ..protocols import SimulationLike

__all__ = [
    "below",
    "check_belongs",
    "damage",
    "differences",
    "fingerprint",
    "nested",
    "read_checkpoint",
    "write_checkpoint",
]

_KIND = "sponge checkpoint"
_VERSION = 2
_OLD = b"TRISKELE SPONGE\0"  # beginning of files of version 1, which had a format of their own


def write_checkpoint(path: str | os.PathLike, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Write arrays and a JSON-like dictionary to `path`, all or nothing: an error leaves what was there untouched."""
    archive.write(path, _KIND, _VERSION, meta, arrays)


def read_checkpoint(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the dictionary of a checkpoint; a damaged or foreign file raises CheckpointError."""
    with open(path, "rb") as file:
        if file.read(len(_OLD)) == _OLD:
            raise CheckpointError(
                f"{_KIND} {os.fspath(path)!r}: must be written by this release, got a file of "
                "release 0.5 or older (finish the run with that release)"
            )
    meta, arrays = archive.read(path, _KIND, (_VERSION,), CheckpointError)
    check.kind(meta, dict, f"{_KIND} {os.fspath(path)!r}: the description", "a dictionary", error=CheckpointError)
    return arrays, meta


def check_belongs(path: str, meta: dict[str, Any], here: dict[str, Any]) -> dict[str, int]:
    """Return the lengths of a checkpoint's reporter files; raise CheckpointError if its fingerprint is not `here`."""
    if meta["fingerprint"] != here:
        raise CheckpointError(
            f"checkpoint {path!r}: must belong to the same system and settings, but these differ: "
            + ", ".join(differences(meta["fingerprint"], here))
        )
    files = dict(meta["files"])
    if not all(type(size) is int and size >= 0 for size in (*files.values(), meta["step"])):
        raise ValueError("step and sizes of files must be natural numbers")
    return files


@contextmanager
def damage(path: str) -> Iterator[None]:
    """Raise CheckpointError for whatever the content of a damaged checkpoint leads to."""
    try:
        yield
    except CheckpointError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"checkpoint {path!r}: does not hold the state of a simulation: {type(error).__name__} {error}"
        ) from error


def nested(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays with `prefix` put before their names."""
    return {prefix + name: values for name, values in arrays.items()}


def below(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names begin with `prefix`, which is taken off."""
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}


def fingerprint(sim: SimulationLike) -> dict[str, Any]:
    """Return all that a run depends on besides its state, as a tree by name: numbers as values, arrays as hashes."""
    system = sim.system
    return json.loads(
        json.dumps(
            {
                "atoms": system.n,
                "first box": _describe(system.box),  # from which mesh and cut-offs were planned
                "masses": _describe(system.masses),
                "constraints": _describe([system.constraints.pairs, system.constraints.distances]),
                "virtual sites": _describe(system.virtual_sites),
                "exclusions": _describe(system.exclusions),
                "removal of center-of-mass motion": acts_on(sim._engine)
                if system.remove_com_motion is None
                else system.remove_com_motion,
                "potentials": {p.name: _fields(p) for p in system.potentials},
                "integrator": _fields(sim.integrator),
                "barostat": None if sim.barostat is None else _fields(sim.barostat),
                "sampling": {method.name: _fields(method) for method in sim.sampling},
                "precision": sim.precision,
                "seed": sim.seed,
            }
        )
    )


def differences(
    saved: dict[str, Any], here: dict[str, Any], where: str = "", *, then: str = "in the checkpoint", now: str = "here"
) -> list[str]:
    """Describe the differences between two fingerprints; `then` and `now` name them."""
    found = []
    for key in [*saved, *(k for k in here if k not in saved)]:
        name = f"{where}{key}"
        a, b = saved.get(key), here.get(key)
        if a == b:
            continue
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{name}: " if where else f"{name} ", then=then, now=now)
        elif key not in here or key not in saved:
            found.append(f"{name} (only {then if key in saved else now})")
        elif isinstance(a, str) and a.startswith("#"):
            found.append(f"{name} (other values)")
        else:
            found.append(f"{name} ({_short(a)} {then}, {_short(b)} {now})")
    return found


def _short(value):
    if isinstance(value, dict):
        return value.get("class", "something else")
    return "none" if value is None else f"{value}"


def _fields(thing) -> dict[str, Any]:
    if dataclasses.is_dataclass(thing):
        values = {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing)}
    else:
        # a potential made from a function has it in a class of its own
        values = {k: v for k, v in vars(type(thing)).items() if k == "function"} | vars(thing)
    return {"class": type(thing).__name__, **{k: _describe(v) for k, v in values.items() if not k.startswith("_")}}


def _describe(value: Any) -> Any:
    """A value as JSON: small ones readable, arrays and everything large as a hash that begins with #."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return value.item()
    if isinstance(value, np.ndarray):
        text = f"{value.dtype.str}{value.shape}".encode()
        return "#" + hashlib.sha256(text + np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    if isinstance(value, dict):
        return {str(k): _describe(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, range)):
        parts = sorted(map(str, value)) if isinstance(value, (set, frozenset)) else [_describe(v) for v in value]
        return "#" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    if isinstance(value, type):
        return value.__qualname__
    if callable(value) and not dataclasses.is_dataclass(value):  # a function of the user's, with all that it reads
        return "#" + fingerprint_of(value).hex()[:16]
    if hasattr(value, "__dict__") or dataclasses.is_dataclass(value):
        return _fields(value)
    return type(value).__name__
