"""Writes optimizers.npz: parameters after 1, 2, 10 and 50 steps of PyTorch 2.13 and optax 0.2.8, in float64.

The numbers are their output on random inputs made here; no data of others is involved.
"""

from pathlib import Path

import jax
import numpy as np
import optax
import torch

jax.config.update("jax_enable_x64", True)
torch.set_default_dtype(torch.float64)  # also of the step's own numbers in ASGD and NAdam
STEPS = (1, 2, 10, 50)
rng = np.random.default_rng(15)
start, gradients = rng.normal(size=9), rng.normal(size=(50, 9)) * np.exp(rng.normal(size=9))
gradients[3] = gradients[7:9, :6] = 0  # the first array has six entries, the second three
out = {"start": start, "gradients": gradients}

TORCH = {
    "sgd_l2": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1, nesterov=True),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.05, lambd=0.01, t0=20),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.2),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.5, rho=0.8),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, alpha=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.2),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.1),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.1),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.1),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.1, step_sizes=(0.01, 0.2)),
    "sgd_cycle_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adamw_cycle_momentum": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.2),
    "adam_one_cycle": lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.9, 0.999)),
}
for name, make in TORCH.items():
    params = [torch.tensor(start[:6].reshape(2, 3)), torch.tensor(start[6:])]
    opt = make([p.requires_grad_() for p in params])
    cycle = None
    if "cycle" in name:
        cycle = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, 50, cycle_momentum="momentum" in name)
    for k, g in enumerate(gradients, 1):
        params[0].grad, params[1].grad = torch.tensor(g[:6].reshape(2, 3)), torch.tensor(g[6:])
        opt.step()
        if cycle and k < 50:
            cycle.step()
        if k in STEPS:
            out[f"{name}_{k}"] = np.concatenate([p.detach().numpy().ravel() for p in params])
    if name == "asgd":
        out["asgd_average"] = np.concatenate([opt.state[p]["ax"].numpy().ravel() for p in params])

OPTAX = {
    "lamb": optax.lamb(0.1, weight_decay=0.1),
    "lars": optax.lars(1.0, weight_decay=0.0, trust_coefficient=0.05, momentum=0.9),
    "lion": optax.lion(0.1, weight_decay=0.1),
}
for name, opt in OPTAX.items():
    params = [start[:6].reshape(2, 3), start[6:]]
    state = opt.init(params)
    for k, g in enumerate(gradients, 1):
        changes, state = opt.update([g[:6].reshape(2, 3), g[6:]], state, params)
        params = optax.apply_updates(params, changes)
        if k in STEPS:
            out[f"{name}_{k}"] = np.concatenate([np.ravel(p) for p in params])


def rates(make, n=100):
    opt = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    schedule, found = make(opt), []
    for k in range(n):
        found.append(schedule.get_last_lr()[0])
        opt.step()
        if k < n - 1:
            schedule.step()
    return np.array(found)


lr = torch.optim.lr_scheduler
out["one_cycle"] = rates(lambda o: lr.OneCycleLR(o, 0.5, 100))
out["one_cycle_linear"] = rates(
    lambda o: lr.OneCycleLR(o, 0.5, 100, pct_start=0.25, div_factor=10, final_div_factor=50, anneal_strategy="linear")
)
out["cosine_restarts"] = rates(lambda o: lr.CosineAnnealingWarmRestarts(o, 14, T_mult=2, eta_min=0.1))
out["cosine_restarts_even"] = rates(lambda o: lr.CosineAnnealingWarmRestarts(o, 9))
out["polynomial_decay"] = rates(lambda o: lr.PolynomialLR(o, 80, power=2.5))

np.savez(Path(__file__).with_name("optimizers.npz"), **out)
