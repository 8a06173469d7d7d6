"""Writes torch_reference.npz: layers and optimisers as PyTorch computes them, float64 (run with PyTorch 2.13 installed).

The numbers are PyTorch's output on random inputs made here; no data of others is involved.
"""  # noqa: E501

from pathlib import Path

import numpy as np
import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
out = {}


def put(name, value):
    out[name] = value.detach().numpy()


T, B, N, H = 5, 3, 4, 6
x = torch.randn(T, B, N)
put("x", x)
for name, layer in (("lstm", torch.nn.LSTM(N, H)), ("gru", torch.nn.GRU(N, H))):
    put(f"{name}_w_input", layer.weight_ih_l0.T)
    put(f"{name}_w_hidden", layer.weight_hh_l0.T)
    put(f"{name}_b_input", layer.bias_ih_l0)
    put(f"{name}_b_hidden", layer.bias_hh_l0)
    put(f"{name}_y", layer(x)[0])

y = torch.randn(B, 7, 8)
attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
put("attention_x", y)
put("attention_w", attention.in_proj_weight.T)
put("attention_b", attention.in_proj_bias)
put("attention_w_out", attention.out_proj.weight.T)
put("attention_b_out", attention.out_proj.bias)
causal = torch.triu(torch.ones(7, 7, dtype=torch.bool), 1)
put("attention_y", attention(y, y, y, attn_mask=causal)[0])

image = torch.randn(2, 4, 9, 8)
put("image", image.permute(0, 2, 3, 1))
for name, options in {
    "plain": {},
    "strided": {"stride": (2, 1), "padding": (1, 2)},
    "dilated": {"dilation": (2, 2), "padding": (2, 2)},
    "grouped": {"groups": 2},
}.items():
    conv = torch.nn.Conv2d(4, 6, 3, **options)
    put(f"conv_{name}_w", conv.weight.permute(2, 3, 1, 0))
    put(f"conv_{name}_b", conv.bias)
    put(f"conv_{name}_y", conv(image).permute(0, 2, 3, 1))

norm = torch.nn.BatchNorm1d(N, momentum=0.1)
norm.weight.data, norm.bias.data = torch.randn(N), torch.randn(N)
put("norm_scale", norm.weight)
put("norm_bias", norm.bias)
put("batch_norm_y", norm(x.reshape(-1, N)).reshape(x.shape))
put("batch_norm_mean", norm.running_mean)
put("batch_norm_variance", norm.running_var)
put("layer_norm_y", torch.nn.functional.layer_norm(x, (N,), norm.weight, norm.bias))
put("gelu_y", torch.nn.functional.gelu(x))
put("silu_y", torch.nn.functional.silu(x))
put("softplus_y", torch.nn.functional.softplus(x))
labels = torch.tensor([0, 3, 1])
put("labels", labels)
put("cross_entropy", torch.nn.functional.cross_entropy(x[0], labels))
put("cross_entropy_smooth", torch.nn.functional.cross_entropy(x[0], labels, label_smoothing=0.1))
shares = torch.softmax(x[0].flip(0), -1)
put("cross_entropy_soft", torch.nn.functional.cross_entropy(x[0], shares))
put("cross_entropy_soft_smooth", torch.nn.functional.cross_entropy(x[0], shares, label_smoothing=0.1))

start, gradients = torch.randn(5), torch.randn(8, 5)
put("start", start)
put("gradients", gradients)
for name, make in {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, alpha=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.2),
}.items():
    p = start.clone().requires_grad_()
    opt = make([p])
    for g in gradients:
        p.grad = g.clone()
        opt.step()
    put(f"optim_{name}", p)

# random numbers from here on are new ones: those above stay what they were
norm2d = torch.nn.GroupNorm(2, 4)
norm2d.weight.data, norm2d.bias.data = torch.randn(4), torch.randn(4)
put("group_norm_scale", norm2d.weight)
put("group_norm_bias", norm2d.bias)
put("group_norm_y", norm2d(image).permute(0, 2, 3, 1))
put(
    "instance_norm_y",
    torch.nn.functional.instance_norm(image, weight=norm2d.weight, bias=norm2d.bias).permute(0, 2, 3, 1),
)
put("rms_norm_y", torch.nn.functional.rms_norm(x, (N,), norm.weight, 1e-6))
for name, options in {
    "doubling": {"kernel_size": 2, "stride": 2},
    "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": (1, 2)},
    "grouped": {"kernel_size": 3, "groups": 2},
}.items():
    conv = torch.nn.ConvTranspose2d(4, 6, **options)
    put(f"conv_transpose_{name}_w", conv.weight.permute(2, 3, 1, 0))
    put(f"conv_transpose_{name}_b", conv.bias)
    put(f"conv_transpose_{name}_y", conv(image).permute(0, 2, 3, 1))
for name, pool in (("max", torch.nn.functional.max_pool2d), ("mean", torch.nn.functional.avg_pool2d)):
    put(f"{name}_pool_y", pool(image, 2).permute(0, 2, 3, 1))
put("max_pool_padded_y", torch.nn.functional.max_pool2d(image, 3, 2, 1).permute(0, 2, 3, 1))
put("mean_pool_padded_y", torch.nn.functional.avg_pool2d(image, 3, 2, 1, count_include_pad=False).permute(0, 2, 3, 1))

np.savez(Path(__file__).with_name("torch_reference.npz"), **out)
