"""Random pipelines equal a loop over a list, for any number of workers and from every position."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import core
from triskele.core import data

N = 23
X = np.arange(N)


def noisy(sample, key):
    return sample * 100 + core.random.randint(key, 0, 100)


@core.jit
def tripled(x):
    return 3 * x + 1


def odd(x):
    return int(np.sum(x)) % 2 == 1


# Each step: what it does to a pipeline, and to a list of (value, index) of its elements.
STEPS = {
    "noise": (lambda s: s.map(noisy), None),
    "tripled": (lambda s: s.map(tripled), lambda e: [(3 * x + 1, k) for x, k in e]),
    "odd": (lambda s: s.filter(odd), lambda e: [(x, k) for x, k in e if odd(x)]),
    "shard": (lambda s: s.shard(1, 3), lambda e: e[1::3]),
    "take": (lambda s: s.take(7), lambda e: e[:7]),
    "prefetch 1": (lambda s: s.prefetch(workers=1), lambda e: e),
    "prefetch 4": (lambda s: s.prefetch(3, workers=4), lambda e: e),
    "cache": (lambda s: s.cache(), lambda e: e),
    "buffer": (lambda s: s.shuffle(1, buffer=5), "order"),
    "interleave": (lambda s: s.interleave(data.arrays(X[:4])), "interleave"),
}


def expected(names):
    """The elements by a plain loop; orders of shuffles are those that the step itself gives to 0, 1, 2 …"""
    elements, maps = [(int(k), int(k)) for k in X], 0
    for name in names:
        step, loop = STEPS[name]
        if name == "noise":
            elements = [(int(noisy(x, data.sample_key(0, 0, k, maps))), k) for x, k in elements]
        elif loop == "order":
            where = [int(p) for p in step(data.arrays(np.arange(len(elements))))] if elements else []
            elements = [elements[p] for p in where]
        elif loop == "interleave":
            rest, turns = [elements, [(int(k), int(k)) for k in X[:4]]], []
            for t in range(max(map(len, rest))):
                turns += [(r[t][0], r[t][1] * 2 + j) for j, r in enumerate(rest) if t < len(r)]
            elements = turns
        else:
            elements = loop(elements)
        maps += name in ("noise", "tripled")
    return [x for x, _ in elements]


def built(names):
    source = data.arrays(X)
    for name in names:
        n = source.count()
        if name == "shard" and n is not None and n < 2:
            continue
        source = STEPS[name][0](source)
    return source


@settings(deadline=None, max_examples=30)
@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), max_size=4, unique_by=lambda n: n.split()[0]),
    size=st.integers(1, 9),
    repeat=st.booleans(),
)
def test_a_random_pipeline_equals_the_loop_from_every_position(names, size, repeat):
    loop = expected(names)
    source = built(names)
    if source.count() is not None:
        assert source.count() == len(loop)
    assert [int(x) for x in source] == loop
    if repeat and loop and "noise" not in names and "buffer" not in names:
        source, loop = source.repeat(2), loop * 2
    source = source.batch(size)
    batches = [loop[a : a + size] for a in range(0, len(loop), size)]
    iterator, states = source.iterate(), []
    found = [b.tolist() for b in iterator if not states.append(iterator.state())]
    assert found == batches
    for k, state in enumerate(states):
        assert [b.tolist() for b in source.iterate(state=state)] == batches[k + 1 :]


@pytest.mark.parametrize(
    "source",
    [
        data.arrays(X).shuffle(3).repeat(3).batch(4),
        data.arrays(X).filter(odd).shuffle(0, buffer=6).repeat(2).batch(4, drop_remainder=True),
        data.generator(lambda epoch: iter(range(epoch, epoch + 9))).batch(2),
        data.arrays(X).shuffle(0).cache().shuffle(1).batch(3, drop_remainder=True).batch(2).prefetch(),
    ],
    ids=repr,
)
def test_epochs_resume_from_a_state_that_was_saved(source, tmp_path):
    whole = [b.tolist() for b in source.iterate(epoch=1)]
    assert whole != [b.tolist() for b in source.iterate(epoch=0)]
    for k in range(len(whole)):
        iterator = source.iterate(epoch=1)
        for _ in range(k):
            next(iterator)
        core.save(tmp_path / "state", iterator.state())
        assert [b.tolist() for b in source.iterate(epoch=1, state=core.load(tmp_path / "state"))] == whole[k:]


def test_passes_of_a_repeat_have_orders_of_their_own():
    once = data.arrays(X).shuffle(3)
    both = [int(x) for x in once.repeat(2).iterate(epoch=1)]
    assert both == [int(x) for e in (2, 3) for x in once.iterate(epoch=e)]
    endless = iter(once.repeat().batch(10))
    assert sorted(np.concatenate([next(endless) for _ in range(23)]).tolist()) == sorted(X.tolist() * 10)


def test_positions_of_other_pipelines_raise():
    source = data.arrays(X).batch(4)
    state = source.iterate(epoch=1).state()
    with pytest.raises(ValueError, match="must belong to epoch 0, got epoch 1"):
        source.iterate(epoch=0, state=state)
    with pytest.raises(ValueError, match="state must come from"):
        source.iterate(state={"step": 3})
