"""Networks against PyTorch's and torchvision's outputs for the same weights (tests/data/models)."""

import importlib.util
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from triskele import core
from triskele.core import models, nn, optim, random, tree

DATA = Path(__file__).parents[2] / "data" / "models"
REFERENCE = np.load(DATA / "torch_reference.npz")
SPEC = importlib.util.spec_from_file_location("formula", DATA / "formula.py")
formula = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(formula)

NETWORKS = {
    "resnet8": (partial(models.ResNet.init, depth=8), (2, 32, 32, 3)),
    "resnet20": (partial(models.ResNet.init, depth=20), (2, 32, 32, 3)),
    "resnet18": (partial(models.ResNet.init, depth=18), (1, 65, 64, 3)),
    "resnet50": (partial(models.ResNet.init, depth=50), (1, 65, 64, 3)),
    "unet": (partial(models.UNet.init, channels_in=1, classes=2, width=4, depth=2), (1, 8, 12, 1)),
    "fcn": (partial(models.FCN.init, channels_in=3, classes=3, width=4, hidden=8), (1, 32, 64, 3)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_are_those_of_torch(name):
    make, shape = NETWORKS[name]
    arrays, structure = tree.flatten(make(random.key(0)))
    net = tree.unflatten(structure, [formula.weight(a.shape, k) for k, a in enumerate(arrays)])
    y = net(formula.numbers(shape, 1000))
    y = y[:, ::25] if y.shape[-1] == 1000 else y[:, ::4, ::4] if name == "fcn" else y
    np.testing.assert_allclose(y, REFERENCE[name], rtol=1e-9, atol=1e-9 * np.abs(REFERENCE[name]).max())


def test_numbers_of_parameters():
    """Those of MLPerf Tiny's reference, of the paper (table 6), and of torchvision, and the running statistics."""
    counts = {8: 78_666, 20: 269_722 + 1_376, 18: 11_689_512 + 9_600}
    for depth, count in counts.items():
        assert sum(a.size for a in tree.leaves(models.ResNet.init(random.key(0), depth))) == count


def test_volumes_and_compiled_training_steps():
    """A U-Net of volumes learns one of them, in one compiled function without calls back into Python."""
    net = models.UNet.init(random.key(0), 1, 2, width=2, depth=1, rank=3)
    x = formula.numbers((1, 6, 8, 4, 1), 0).astype(np.float32)
    labels = (x[..., 0] > 0).astype(int)
    optimizer = optim.Adam(0.02)

    def step(net, state):
        loss, grads = core.value_and_grad(lambda net: nn.cross_entropy(net(x), labels))(net)
        net, state = optimizer.step(net, grads, state)
        return loss, net, state

    step, state, losses = core.jit(step), optimizer.init(net), []
    assert "host call" not in step.lower(net, state).kernels
    for _ in range(30):
        loss, net, state = step(net, state)
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]


def test_wrong_sizes_are_named():
    with pytest.raises(ValueError, match="ResNet: depth must be one of 8, 18, 20, 50, got 9"):
        models.ResNet.init(random.key(0), 9)
    with pytest.raises(ValueError, match=r"UNet: 2 must divide the axes of the images, got shape \(1, 5, 4, 1\)"):
        models.UNet.init(random.key(0), 1, 2, width=2, depth=1)(np.zeros((1, 5, 4, 1)))
    with pytest.raises(ValueError, match="FCN: 32 must divide"):
        models.FCN.init(random.key(0), 1, 2, width=1, hidden=1)(np.zeros((1, 32, 16, 1)))
