"""Transformers against Hugging Face's logits for the same weights (tests/data/models), and generation with a cache."""

import importlib.util
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from triskele import core
from triskele.core import models, nn, optim, random, tree
from triskele.core.errors import IndexOutOfBoundsError

DATA = Path(__file__).parents[2] / "data" / "models"
REFERENCE = np.load(DATA / "transformers_reference.npz")
SPEC = importlib.util.spec_from_file_location("formula", DATA / "formula.py")
formula = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(formula)

NETWORKS = {
    "gpt2": partial(models.Transformer.gpt2, random.key(1), context=16, width=24, layers=2, heads=4),
    "llama": partial(
        models.Transformer.llama, random.key(1), context=16, width=24, layers=2, heads=4, key_heads=2, hidden=40
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NETWORKS)
def test_logits_are_those_of_transformers(name, dtype):
    arrays, structure = tree.flatten(NETWORKS[name](23, dtype=dtype))
    net = tree.unflatten(structure, [formula.weight(a.shape, k).astype(dtype) for k, a in enumerate(arrays)])
    want = REFERENCE[f"{name}_{np.dtype(dtype)}"]
    tolerance = (1e-5 if dtype == np.float32 else 1e-9) * np.abs(want).max()
    for run in (lambda f: f, core.jit):
        y = run(lambda tokens: net(tokens))(REFERENCE["tokens"])
        assert y.dtype == dtype
        np.testing.assert_allclose(y, want, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", NETWORKS)
def test_generation_with_a_cache_is_that_without(name):
    net, prompt, key = NETWORKS[name](23, dtype=np.float64), np.array([[1, 2, 3], [4, 5, 0]]), random.key(5)
    for options in ({"temperature": 0}, {"temperature": 0.1, "top_k": 4, "key": key}):
        tokens = prompt
        for k in range(9):
            logits = net(tokens)[:, -1]
            if "key" in options:
                hidden = logits < np.sort(logits)[:, [-4]]
                new = random.categorical(random.fold_in(key, k), np.where(hidden, -np.inf, logits / 0.1))
            else:
                new = logits.argmax(-1)
            tokens = np.concatenate([tokens, new[:, None]], axis=1)
        assert np.array_equal(net.generate(prompt, 9, **options), tokens[:, 3:])
    assert np.array_equal(net.generate(prompt[0], 9, **options), net.generate(prompt[:1], 9, **options)[0])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_compiled_step_trains_without_calls_of_python(name):
    net, optimizer = NETWORKS[name](5), optim.Adam(0.01)
    tokens = np.arange(24).reshape(2, 12) % 5

    def step(net, state):
        loss, grads = core.value_and_grad(lambda net: nn.cross_entropy(net(tokens[:, :-1]), tokens[:, 1:]))(net)
        return loss, *optimizer.step(net, grads, state)

    step, state, losses = core.jit(step), optimizer.init(net), []
    assert "host call" not in step.lower(net, state).kernels
    for _ in range(40):
        loss, net, state = step(net, state)
        losses.append(float(loss))
    assert losses[0] == pytest.approx(np.log(5), abs=0.3) and losses[-1] < 0.1
    assert np.array_equal(net.generate(np.array([0, 1, 2]), 6, temperature=0), (np.arange(6) + 3) % 5)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="heads must divide the width"):
        models.Transformer.gpt2(random.key(0), 5, width=10, heads=4)
    with pytest.raises(ValueError, match="heads of even size, got 3"):
        models.Transformer.llama(random.key(0), 5, width=12, heads=4)
    net = NETWORKS["gpt2"](23)
    with pytest.raises(ValueError, match="n from 1 to the context of 16"):
        net(np.zeros((1, 17), int))
    for arguments, message in (
        ((np.zeros(3, int), 14), "at most the context of 16, got 3 \\+ 14"),
        ((np.zeros(3), 4), "integers"),
        ((np.zeros(3, int), 0), "length"),
    ):
        with pytest.raises(ValueError, match=message):
            net.generate(*arguments, temperature=0)
    with pytest.raises(ValueError, match="key must be given"):
        net.generate(np.zeros(3, int), 4)
    with pytest.raises(ValueError, match="top_k"):
        net.generate(np.zeros(3, int), 4, top_k=24, key=random.key(0))
    for bad in (-1, 23):
        with pytest.raises(IndexOutOfBoundsError, match=rf"tokens of the prompt .* below 23, got {bad} at \(1, 0\)"):
            net.generate(np.array([[0], [bad]]), 4, temperature=0)
        with pytest.raises(IndexOutOfBoundsError, match=rf"Transformer: tokens .* below 23, got {bad} at \(0, 1\)"):
            net(np.array([[0, bad]]))
        with pytest.raises(IndexOutOfBoundsError, match=r"Transformer: tokens .* below 23, .* that is not at \(0, 1\)"):
            core.jit(lambda net, tokens: net(tokens))(net, np.array([[0, bad]]))
