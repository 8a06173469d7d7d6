"""Pipelines give what a plain loop over NumPy arrays gives, from every position, for any number of workers."""

import itertools

import numpy as np
import pytest

from triskele import core
from triskele.core import data

IMAGES = np.random.default_rng(0).integers(0, 256, (37, 8, 8, 3), dtype=np.uint8)
LABELS = np.arange(37)
AUGMENT = data.image.flip(0.5) | data.image.crop(8, pad=2)


def equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(core.tree.leaves(a), core.tree.leaves(b), strict=True))


def assert_same(found, expected):
    assert len(found) == len(expected)
    assert all(equal(a, b) for a, b in zip(found, expected))


def eager(seed, epoch, size):
    """Batches of images in the order of a shuffle, each augmented by itself."""
    order = [int(k) for k in data.arrays(LABELS).shuffle(seed).iterate(epoch)]
    images = [AUGMENT(IMAGES[k], key=data.sample_key(0, epoch, k)) for k in order]
    return [(np.stack(images[a : a + size]), np.array(order[a : a + size])) for a in range(0, len(order), size)]


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_batches_are_those_of_a_loop_from_every_position(workers):
    source = data.arrays(IMAGES, LABELS).shuffle(seed=3).map(AUGMENT).batch(8)
    source = source.prefetch(workers=workers) if workers else source
    expected = eager(3, 2, 8)
    iterator, states = source.iterate(epoch=2), []
    found = [batch for batch in iterator if not states.append(iterator.state())]
    assert_same(found, expected)
    assert len(source) == len(expected)
    for k, state in enumerate(states):
        assert_same(list(source.iterate(epoch=2, state=state)), expected[k + 1 :])


def test_arrays_in_memory_make_the_same_batches():
    source = data.arrays(IMAGES, LABELS).shuffle(seed=3).shard(0, 2).map(AUGMENT).batch(8).prefetch()
    found = source.arrays_in_memory()
    make, order = core.jit(found.make), found.order(5)
    batches = [make(found.arrays, order[a : a + found.size], np.int64(5)) for a in range(0, len(order), found.size)]
    assert_same(batches, list(source.iterate(epoch=5)))


def test_arrays_in_memory_is_none_for_other_pipelines(tmp_path):
    source = data.arrays(IMAGES, LABELS)
    assert source.arrays_in_memory() is None
    assert source.filter(lambda s: True).batch(8).arrays_in_memory() is None
    assert source.map(lambda s: s).batch(8).arrays_in_memory() is None


def test_samples_have_the_form_of_the_arrays():
    assert next(iter(data.arrays([[1, 2], [3, 4]], [5, 6]).batch(2)))[1].tolist() == [5, 6]
    source = data.arrays({"image": list(IMAGES), "name": [f"{k}.png" for k in LABELS], "more": (LABELS, LABELS)})
    batch = next(iter(source.map(AUGMENT | data.image.normalize(0, 1), on="image").batch(3)))
    assert batch["image"].dtype == np.float32
    assert batch["name"].tolist() == ["0.png", "1.png", "2.png"]
    assert batch["more"][1].tolist() == [0, 1, 2]


def test_augmentations_do_not_depend_on_the_batch():
    source = data.arrays(IMAGES, LABELS).map(AUGMENT)
    small, large = (np.concatenate([b[0] for b in source.batch(n)]) for n in (3, 16))
    assert np.array_equal(small, large)
    assert not np.array_equal(small, np.concatenate([b[0] for b in source.batch(3).iterate(epoch=1)]))


@pytest.mark.parametrize("n", [1, 2, 5, 97, 4096, 10007])
def test_a_shuffle_is_a_permutation(n):
    orders = [[int(k) for k in data.arrays(np.arange(n)).shuffle(seed=0).iterate(epoch)] for epoch in range(2)]
    assert all(sorted(order) == list(range(n)) for order in orders)
    assert n < 5 or orders[0] != orders[1]


@pytest.mark.parametrize("n", [4096, 5000, 12289])
def test_long_orders_are_those_of_single_positions(n):
    from triskele.core.data.order import permuted

    order = permuted(np.arange(n), n, 3, 1)
    assert np.array_equal(np.sort(order), np.arange(n))
    for k in (0, n // 2, n - 1):
        assert permuted(np.array([k]), n, 3, 1) == order[k]


def test_shuffles_are_uniform():
    """All 120 orders of five elements are equally likely; so is each place of the first element of a thousand."""
    from scipy.stats import chisquare

    from triskele.core.data.order import permuted

    kinds = {order: k for k, order in enumerate(itertools.permutations(range(5)))}
    counts = np.bincount(
        [kinds[tuple(permuted(np.arange(5), 5, seed, 0).tolist())] for seed in range(1800)], minlength=120
    )
    assert chisquare(counts).pvalue > 1e-3
    places = [int(permuted(np.arange(1), 1000, 7, epoch)[0]) for epoch in range(600)]
    assert chisquare(np.bincount(np.array(places) // 50, minlength=20)).pvalue > 1e-3
