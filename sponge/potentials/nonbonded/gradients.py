"""Derivatives of `Nonbonded`'s energy by its parameters, from kernels where there are some."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from triskele import core
from triskele.core.extend import Task, load_module

from ... import box as boxes
from ...engine.flags import N_FLAGS
from ...engine.program import Phase, Program
from ...neighbors import shared_list
from ...units import COULOMB
from .energy import excluded, long_range_dispersion
from .product import parameter_gradient

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .nonbonded import Nonbonded
    from .plan import NonbondedPlan

__all__ = ["gradients"]


def gradients(potential: Nonbonded, engine: Engine) -> dict[str, np.ndarray]:
    """Derivatives by all parameters at what `engine` has last computed.

    They come from the engine's own kernels, or from a pass over explicit pairs: without cut-off, with a table, with
    LJ-PME, and where the reciprocal sum has no kernels.
    """
    plan: NonbondedPlan = engine.plans[potential.name]
    form = potential.form(engine.first_box if engine.periodic else None)
    charged = bool(np.any(potential.params["charges"]))
    if (
        form.cutoff is None
        or form.mixing == "table"
        or form.lj_alpha
        or (form.alpha and charged and plan.coulomb is None)
    ):
        return parameter_gradient(
            potential, potential.params, engine.positions, engine.box if engine.periodic else None
        )
    by_charge, by_size, by_depth = _pairs(plan, engine, charged)
    params = potential.params
    some = params["epsilons"] > 0
    found = {
        "charges": np.sqrt(COULOMB / 8) * by_charge,
        "sigmas": by_size / (4 if form.mixing == "lorentz_berthelot" else 2),
        "epsilons": np.where(some, 0.5 * by_depth / np.sqrt(np.where(some, params["epsilons"], 1.0)), 0.0),
    }
    if plan.coulomb is not None:
        found["charges"] += plan.coulomb.charge_gradient()
    if form.corrects or form.dispersion:
        more = _others(form)(params, engine.positions, engine.box, potential.exclusions.astype(np.int64))
        for name in found:
            found[name] += more[name]
    return found


def _pairs(plan, engine, charged):
    """Derivatives by the kernels' own parameters, three rows [n]; charges all zero have none."""
    pairs = plan.pairs
    module = load_module(plan.form.source, "pairs")
    first, second, results = [], [], []
    for force, add in zip(pairs.stages[0][::2], pairs.stages[1]):  # of each list: forces and energies; sum over chunks
        result = np.zeros_like(add.args[-1])
        first.append(Task(module.pair_gradients, *force.args, chunks=force.chunks))
        second.append(Task(add.kernel, *add.args[:-1], result, chunks=add.chunks))
        results.append(result)
    Program([Phase(first, name="parameters"), Phase(second, name="sum")], np.zeros(N_FLAGS, np.int64)).run(1)
    slots = shared_list(engine, plan.form.cutoff).slots.astype(np.int64)
    at = 12 * (slots // 4) + slots % 4
    rows = [sum(r[at + 4 * k] for r in results) for k in range(3)]
    return rows if charged else [np.zeros(engine.n), *rows[:2]]


@cache
def _others(form):
    """Derivatives of what excluded pairs and the tail contribute."""

    def energy(params, positions, box, exclusions):
        e = 0.0 * params["charges"][0]
        if form.corrects:
            e = e + excluded(form, params, positions, box, exclusions)
        if form.dispersion:
            e = e + long_range_dispersion(form, params, None) / boxes.volume(box)
        return e

    return core.jit(core.grad(energy))
