"""Engines of MuZero's search: one for models of Numba functions, one for models of compiled programs."""

import numpy as np

from ...rules.fingerprint import fingerprint
from ...rules.program import Batch
from ...rules.rule_function import rule_function
from ...rules.wiring import wire
from ..context import context_of, run_chunks
from ..loops import learned as loop
from ..loops.learned import ADDRESSES, FAILED, PART, LearnedArrays

__all__ = ["FunctionEngine", "ProgramEngine"]

# Trees of a part: with more, what a thread works on leaves its second cache; with fewer, products of matrices are slow.
# How many they are does not depend on the threads, since the last bits of a program may depend on its rows.
LEAST_TREES, MOST_TREES = 8, 64


class FunctionEngine:
    """A model of Numba functions, with its arrays for one number of observations and the kernel that calls it."""

    def __init__(self, search, observations, params):
        model, rows, f32 = search.model, len(observations), np.float32
        shape, dtype = model.embedding
        nodes, actions = search.simulations + 1, model.num_actions
        functions = [rule_function(f) for f in model.functions]
        self.kernels = _kernels(search, fingerprint(*model.functions), *functions)
        embedding, prior, value = np.zeros((rows, *shape), dtype), np.zeros((rows, actions), f32), np.zeros(rows, f32)
        self._arrays = LearnedArrays(
            np.empty((rows, nodes, *shape), dtype),
            np.empty((rows, nodes), f32),
            embedding,
            prior,
            value,
            embedding.copy(),
            np.zeros(rows, np.int64),
            embedding.copy(),
            value.copy(),
            value.copy(),
            prior.copy(),
            value.copy(),
        )

    def run(self, search, tree, noise, observations, legal, params, seed):
        """Search, in one thread: `params` may be anything."""
        self.kernels.search_functions(
            tree,
            noise,
            search.schedule,
            search.formula,
            search.simulations,
            seed,
            np.ascontiguousarray(observations),
            legal,
            params,
            self._arrays,
        )


class ProgramEngine:
    """A model of compiled programs, cut into parts of some trees each: a part is searched from begin to end by one
    thread, in arrays of its own.
    """

    def __init__(self, search, observations, params):
        model, rows = search.model, len(observations)
        self.kernels = _kernels(search, "")
        size = min(rows, max(LEAST_TREES, min(MOST_TREES, -(-rows // 4))))
        root, step = search.programs
        self._parts, self._table, self._kept = [], np.zeros((-(-rows // size), PART), np.int64), []
        for k, numbers in enumerate(self._table):
            here = slice(k * size, min((k + 1) * size, rows))
            trees = here.stop - here.start
            first = Batch(
                root, params, size, (observations.shape[1:], observations.dtype), ((model.num_actions,), np.bool_)
            )
            embedding = first.outputs[0]
            then = Batch(step, params, size, (embedding.shape[1:], embedding.dtype), ((), np.int64))
            width = embedding[0].nbytes
            room = (
                np.empty((trees, search.simulations + 1, width), np.uint8),
                np.empty((trees, search.simulations + 1), np.float32),
            )
            arrays = [*room, *first.outputs, *then.inputs, *then.outputs, first.calls, then.calls]
            numbers[:ADDRESSES] = here.start, trees, width, 0
            numbers[ADDRESSES:] = [a.ctypes.data for a in arrays]
            self._parts.append((here, first, then))
            self._kept.append(room)

    def run(self, search, tree, noise, observations, legal, params, seed):
        """Search, in all threads."""
        for here, first, then in self._parts:
            for batch in (first, then):
                if params is not batch.params:
                    batch.set_params(params)
            trees = here.stop - here.start
            first.inputs[0][:trees], first.inputs[1][:trees] = observations[here], legal[here]
        self._table[:, FAILED] = 0
        rows, actions = legal.shape
        legal = np.ascontiguousarray(legal)
        context = context_of(
            tree,
            noise,
            self._table,
            legal,
            search.schedule,
            search.schedule.shape[0],
            search.schedule.shape[1],
            search.formula,
            search.simulations,
            seed,
            actions,
        )
        run_chunks(self.kernels.search_programs, context, len(self._parts))
        for (_, first, then), numbers in zip(self._parts, self._table, strict=True):
            if numbers[FAILED]:
                (first if numbers[FAILED] == 1 else then).failed()


def _kernels(search, key, *model):
    f = search.formulas
    return wire(
        "learned",
        f"MuZero's search by the formulas of {f.__name__}. {key}",
        [loop.search_functions, loop.search_programs, loop.results],
        {"search": loop.LearnedSearch(f.prepare_root, f.choose_root, f.choose, f.conclude, *model)},
        [f],
        nogil=True,
    )
