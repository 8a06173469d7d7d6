"""Programs of maps: neighboring compiled maps become one kernel per block, Python functions run for each sample."""

from __future__ import annotations

import inspect
import itertools
from typing import Any, NamedTuple

from .. import random
from ..compile.jit import Jitted, jit
from ..errors import DataError
from ..transforms.vmap import vmap
from .block import Block, same_shapes, stack
from .transform import Transform, is_compiled, parts, sample_key

__all__ = ["Program", "Step", "name_of", "steps"]

Entries = tuple[Any, ...] | None  # names of entries of a sample; None for the whole sample


class Step(NamedTuple):
    """One function of a map."""

    function: Any
    on: Entries
    given: bool  # True if the user chose the entries
    seed: int
    stage: int
    part: int | None  # number inside a composition
    keyed: bool  # True if the function draws random numbers

    @property
    def compiled(self) -> bool:
        return is_compiled(self.function)

    def key(self, epoch: Any, index: Any) -> Any:
        """The key of one sample, None if the function needs none."""
        if not self.keyed:
            return None
        key = sample_key(self.seed, epoch, index, self.stage)
        return key if self.part is None else random.fold_in(key, self.part)

    def entries(self, sample: Any) -> Entries:
        """Names of the entries of a sample that the function takes."""
        if self.given or not isinstance(self.function, Transform) or self.function.whole:
            return self.on
        if isinstance(sample, dict):
            raise DataError(
                f"map: `{name_of(self.function)}` must know the entry that it transforms, got a sample "
                f"with entries {', '.join(map(str, sample))} (map(..., on={next(iter(sample))!r}))"
            )
        return (0,) if isinstance(sample, (tuple, list)) else None

    def apply(self, sample: Any, key: Any, entries: Entries) -> Any:
        """The sample with the entries transformed; all of them get the same key."""
        options = {"key": key} if self.keyed else {}
        if entries is None:
            return self.function(sample, **options)
        for name in entries:
            sample = replaced(sample, {name: self.function(entry(sample, name, self.function), **options)})
        return sample


def steps(f: Any, on: Any, seed: int, stage: int) -> list[Step]:
    """The steps of a map."""
    given = on is not None
    entries = tuple(on) if isinstance(on, (tuple, list)) else (on,) if given else None
    found = parts(f)
    return [
        Step(p, entries, given, seed, stage, k if len(found) > 1 else None, _takes_key(p)) for k, p in enumerate(found)
    ]


def _takes_key(f):
    """Return True for random transforms, and functions with a parameter `key`."""
    if isinstance(f, Transform):
        return f.random
    try:
        return "key" in inspect.signature(f).parameters
    except (TypeError, ValueError):
        return False


def name_of(f: Any) -> str:
    """A function as messages name it."""
    return getattr(f, "__name__", type(f).__name__)


def entry(sample, name, function):
    try:
        return sample[name]
    except (KeyError, IndexError, TypeError):
        known = (
            ", ".join(map(str, sample))
            if isinstance(sample, dict)
            else f"{len(sample)} entries"
            if isinstance(sample, (tuple, list))
            else f"{type(sample).__name__}"
        )
        raise DataError(f"map: `{name_of(function)}` needs the entry {name!r}, got a sample of {known}") from None


def replaced(sample, new):
    """A sample with some entries replaced."""
    if isinstance(sample, dict):
        return {**sample, **new}
    values = [new.get(k, v) for k, v in enumerate(sample)]
    return type(sample)(*values) if hasattr(sample, "_fields") else type(sample)(values)


class Program:
    """Neighboring maps of a pipeline; `batched` says that they see batches."""

    def __init__(self, maps: list[Step], batched: bool):
        self.runs = [(compiled, list(run)) for compiled, run in itertools.groupby(maps, lambda s: s.compiled)]
        self.batched = batched
        self._kernels: dict[Any, Jitted] = {}

    def __call__(self, block: Block, describe) -> Block:
        for number, (compiled, run) in enumerate(self.runs):
            block = self._compiled(number, run, block, describe) if compiled else _each(run, block, describe)
        return block

    def traceable(self):
        """``f(values, ids, epochs)`` of all maps on a stacked block, or None if a Python function is among them."""
        if not all(compiled for compiled, _ in self.runs):
            return None
        run = [s for _, part in self.runs for s in part]
        return lambda values, ids, epochs: _apply_all(run, values, ids, epochs, self.batched)

    def _compiled(self, number, run, block, describe):
        first = 0
        if self.batched:
            found = [
                self._kernel(number, run, 0, v, i, e, describe, block, k)
                for k, (v, i, e) in enumerate(zip(block.samples(), block.ids, block.epochs, strict=True))
            ]
            return block._replace(values=found, stacked=False)
        while not block.stacked:  # samples of several shapes: one by one, until a step makes the shapes equal
            if same_shapes(block.values):
                block = stack(block, describe)
            elif first == len(run):
                return block
            else:
                block = _each([run[first]], block, describe)
                first += 1
        if first == len(run):
            return block
        return block._replace(
            values=self._kernel(number, run, first, block.values, block.ids, block.epochs, describe, block, None)
        )

    def _kernel(self, number, run, first, values, ids, epochs, describe, block, at):
        run = run[first:]
        names = _needed(run, values)
        taken = values if names is None else {n: entry(values, n, run[0].function) for n in names}
        where = (number, first, names)
        if where not in self._kernels:
            self._kernels[where] = jit(_function(run, values, self.batched))
        try:
            found = self._kernels[where](taken, ids, epochs)
        except Exception as error:
            if at is None:
                _each(run, block, describe)  # raises at the sample that is the reason
            which = block.named(0 if at is None else at, describe)
            raise DataError(
                f"map: `{' | '.join(name_of(s.function) for s in run)}` failed in the batch that begins "
                f"with {which}: {type(error).__name__}: {error}"
            ) from error
        return found if names is None else replaced(values, found)


def _needed(run, sample):
    """Names of all entries that the steps take, or None for the whole sample."""
    names: dict[Any, None] = {}
    for s in run:
        entries = s.entries(sample)
        if entries is None:
            return None
        names.update(dict.fromkeys(entries))
    return tuple(names)


def _function(run, sample, batched):
    entries = [s.entries(sample) for s in run]

    def program(values, ids, epochs):
        return _apply_all(run, values, ids, epochs, batched, entries)

    return program


def _apply_all(run, values, ids, epochs, batched, entries=None):
    def one(sample, index, epoch):
        for k, s in enumerate(run):
            sample = s.apply(sample, s.key(epoch, index), s.entries(sample) if entries is None else entries[k])
        return sample

    return one(values, ids, epochs) if batched else vmap(one)(values, ids, epochs)


def _each(run, block, describe):
    """Call the steps for each sample, at once."""
    out = []
    keys = [vmap(s.key)(block.epochs, block.ids) if s.keyed else [None] * len(block.ids) for s in run]
    for k, sample in enumerate(block.samples()):
        for s, own in zip(run, keys, strict=True):
            try:
                sample = s.apply(sample, own[k], s.entries(sample))
            except Exception as error:
                raise DataError(
                    f"map: `{name_of(s.function)}` failed at {block.named(k, describe)}: "
                    f"{type(error).__name__}: {error}"
                ) from error
        out.append(sample)
    return Block(out, block.ids, block.epochs, False)
