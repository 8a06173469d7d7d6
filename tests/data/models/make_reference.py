"""Writes torch_reference.npz: outputs of networks in PyTorch and torchvision, float64, weights by `formula.py`.

Run with PyTorch 2.13 and torchvision 0.28 installed. The numbers are their output; no data of others is involved.
ResNet-18 and 50 are torchvision's; the others are written here after their papers (ResNet-8: MLPerf Tiny's
`image_classification/keras_model.py`, Apache 2.0).
"""

from pathlib import Path

import numpy as np
import torch
from formula import numbers, weight
from torch import nn
from torch.nn import functional

library = torch.library.Library("torchvision", "DEF")  # its compiled operators are not needed
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import torchvision  # noqa: E402

torch.set_default_dtype(torch.float64)


def fill(layers):
    """Give the arrays of layers, in this order, what the formula says; kernels are there (*window, in, out)."""
    seed = 0
    with torch.no_grad():
        for layer in layers:
            arrays = [layer.weight, layer.bias]
            if isinstance(layer, nn.BatchNorm2d):
                arrays += [layer.running_mean, layer.running_var]
            for a in arrays:
                if a is None:
                    continue
                if a.ndim == 4:  # torch has (out, in, *window), transposed (in, out, *window): ours is the reverse
                    shape = (*a.shape[2:], *a.shape[1::-1])
                    value = torch.from_numpy(weight(shape, seed)).permute(3, 2, 0, 1)
                elif a.ndim == 2:
                    value = torch.from_numpy(weight(tuple(a.shape[::-1]), seed)).T
                else:
                    value = torch.from_numpy(weight(tuple(a.shape), seed))
                a.copy_(value)
                seed += 1


def leaves(module):
    return [m for m in module.modules() if not list(m.children()) and any(True for _ in m.parameters())]


def result(net, layers, shape):
    fill(layers)
    net.eval()
    with torch.no_grad():
        y = net(torch.from_numpy(numbers(shape, 1000)).permute(0, 3, 1, 2))
    return (y.permute(0, 2, 3, 1) if y.ndim == 4 else y).numpy()


class Block(nn.Module):
    """A block of ResNet-8 (projection without normalization, "same" padding) or of ResNet-20 (option A)."""

    def __init__(self, a, b, stride, plain):
        super().__init__()
        options = {"epsilon": 1e-3} if plain else {"epsilon": 1e-5}
        self.plain, self.stride, self.missing = plain, stride, b - a
        self.c1 = nn.Conv2d(a, b, 3, stride, 0, bias=plain)
        self.n1 = nn.BatchNorm2d(b, options["epsilon"])
        self.c2 = nn.Conv2d(b, b, 3, 1, 1, bias=plain)
        self.n2 = nn.BatchNorm2d(b, options["epsilon"])
        self.short = nn.Conv2d(a, b, 1, stride) if plain and stride > 1 else None

    def forward(self, x):
        low = 0 if self.plain and self.stride == 2 else 1
        y = functional.relu(self.n1(self.c1(functional.pad(x, (low, 1, low, 1)))))
        y = self.n2(self.c2(y))
        if self.short is not None:
            x = self.short(x)
        elif self.stride > 1:
            half = self.missing // 2
            x = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, half, self.missing - half))
        return functional.relu(x + y)


class Small(nn.Module):
    def __init__(self, count, plain):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, 1, 1, bias=plain), nn.BatchNorm2d(16, 1e-3 if plain else 1e-5), nn.ReLU()
        )
        widths = [16] + [16] * count + [32] * count + [64] * count
        self.blocks = nn.Sequential(
            *[Block(a, b, 2 if b > a else 1, plain) for a, b in zip(widths, widths[1:], strict=False)]
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def double(a, b):
    parts = []
    for n in (a, b):
        parts += [nn.Conv2d(n, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*parts)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList([double(1, 4), double(4, 8), double(8, 16)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 8, 2, 2), nn.ConvTranspose2d(8, 4, 2, 2)])
        self.decoder = nn.ModuleList([double(16, 8), double(8, 4)])
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        a = self.encoder[0](x)
        b = self.encoder[1](functional.max_pool2d(a, 2))
        c = self.encoder[2](functional.max_pool2d(b, 2))
        b = self.decoder[0](torch.cat([b, self.up[0](c)], 1))
        return self.head(self.decoder[1](torch.cat([a, self.up[1](b)], 1)))


class FCN(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        n, stages = 3, []
        for width, count in ((4, 2), (8, 2), (16, 3), (32, 3), (32, 3)):
            parts = []
            for _ in range(count):
                parts += [nn.Conv2d(n, width, 3, padding=1), nn.ReLU()]
                n = width
            stages.append(nn.Sequential(*parts))
        self.stages = nn.ModuleList(stages)
        self.classifier = nn.Sequential(nn.Conv2d(32, 8, 7, padding=3), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.ReLU())
        self.scores = nn.ModuleList([nn.Conv2d(c, classes, 1) for c in (16, 32, 8)])
        self.enlarge = nn.ModuleList(
            [nn.ConvTranspose2d(classes, classes, 2 * f, f, f // 2, bias=False) for f in (2, 2, 8)]
        )

    def forward(self, x):
        halved = []
        for stage in self.stages:
            x = functional.max_pool2d(stage(x), 2)
            halved.append(x)
        y = self.enlarge[0](self.scores[2](self.classifier(x))) + self.scores[1](halved[3])
        return self.enlarge[2](self.enlarge[1](y) + self.scores[0](halved[2]))


out = {}
for name, count, plain in (("resnet8", 1, True), ("resnet20", 3, False)):
    net = Small(count, plain)
    order = leaves(net.stem)
    for b in net.blocks:
        order += [b.c1, b.n1, b.c2, b.n2] + ([b.short] if b.short is not None else [])
    out[name] = result(net, [*order, net.head], (2, 32, 32, 3))
for name in ("resnet18", "resnet50"):
    net = getattr(torchvision.models, name)(weights=None)
    order = [net.conv1, net.bn1]
    for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
        for b in stage:
            order += [b.conv1, b.bn1, b.conv2, b.bn2] + ([b.conv3, b.bn3] if name == "resnet50" else [])
            order += list(b.downsample) if b.downsample is not None else []
    out[name] = result(net, [*order, net.fc], (1, 65, 64, 3))[:, ::25]
out["unet"] = result(net := UNet(), leaves(net), (1, 8, 12, 1))
out["fcn"] = result(net := FCN(), leaves(net), (1, 32, 64, 3))[:, ::4, ::4]
np.savez_compressed(Path(__file__).with_name("torch_reference.npz"), **out)
