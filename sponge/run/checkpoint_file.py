"""Checkpoint files: atomic, versioned, checksummed; and what they say about the system they belong to.

A file is a magic word, a version, the length and SHA-256 of what follows, and an uncompressed NumPy archive of arrays,
one of which holds JSON. It is written beside its place, brought to the disk, and renamed: at any moment the path holds
a whole checkpoint, the old one or the new one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import atomic, read_npz

from ..errors import CheckpointError
from ..fingerprint import fingerprint_of

if TYPE_CHECKING:
    from .simulation import Simulation

__all__ = ["differences", "fingerprint", "read_checkpoint", "write_checkpoint"]

_MAGIC = b"TRISKELE SPONGE\0"
_VERSION = 1
_HEAD = struct.Struct("<16sIQ32s")  # magic, version, length and SHA-256 of the archive
_META = "meta"


def write_checkpoint(path: str | os.PathLike, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Write arrays and a JSON-like dictionary to `path`, all or nothing.

    Raises
    ------
    OSError
        If the disk is full or the path cannot be written; what was at `path` before is untouched.
    """
    buffer = io.BytesIO()
    np.savez(buffer, **arrays, **{_META: np.frombuffer(json.dumps(meta).encode(), np.uint8)})
    data = buffer.getbuffer()
    with atomic(path) as file:
        file.write(_HEAD.pack(_MAGIC, _VERSION, len(data), hashlib.sha256(data).digest()))
        file.write(data)


def read_checkpoint(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and dictionary of a checkpoint.

    Raises
    ------
    FileNotFoundError
    CheckpointError
        If the file is truncated, damaged, of another kind or of a newer version.
    """
    path = os.fspath(path)
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < _HEAD.size or data[:16] != _MAGIC:
        raise CheckpointError(f"checkpoint {path!r}: must be a checkpoint of triskele.sponge, got "
                              f"{'an empty file' if not data else 'a file of another kind'}")
    _, version, size, digest = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CheckpointError(
            f"checkpoint {path!r}: version must be {_VERSION}, got {version} (written by another release)"
        )
    archive = memoryview(data)[_HEAD.size:]
    if len(archive) != size:
        raise CheckpointError(f"checkpoint {path!r}: must hold {size} bytes after its head, got {len(archive)} "
                              f"(the file {'was cut off' if len(archive) < size else 'has something appended'})")
    if hashlib.sha256(archive).digest() != digest:
        raise CheckpointError(f"checkpoint {path!r}: the checksum does not fit (the file is damaged)")
    where = f"checkpoint {path!r}"
    try:
        arrays = read_npz(archive, where)
        meta = json.loads(bytes(arrays.pop(_META)))
    except (ValueError, KeyError, RecursionError) as error:
        raise CheckpointError(f"{where}: must hold arrays and their description, got {error}") from error
    return arrays, meta


def fingerprint(sim: Simulation) -> dict[str, Any]:
    """Return all that a run depends on besides its state, as a tree by name: numbers as values, arrays as hashes."""
    system = sim.system
    return json.loads(json.dumps({
        "atoms": system.n,
        "first box": _describe(system.box),  # from which mesh and cut-offs were planned
        "masses": _describe(system.masses),
        "constraints": _describe([system.constraints.pairs, system.constraints.distances]),
        "virtual sites": _describe(system.virtual_sites),
        "exclusions": _describe(system.exclusions),
        "removal of centre-of-mass motion": system.remove_com_motion,
        "potentials": {p.name: _fields(p) for p in system.potentials},
        "integrator": _fields(sim.integrator),
        "barostat": None if sim.barostat is None else _fields(sim.barostat),
        "sampling": {method.name: _fields(method) for method in sim.sampling},
        "precision": sim.precision,
        "seed": sim.seed,
    }))


def differences(saved: dict[str, Any], here: dict[str, Any], where: str = "", *, then: str = "in the checkpoint",
                now: str = "here") -> list[str]:
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
