"""Kernels of marked atoms for one soft core, with derivatives that `codegen.jets` makes of its formulas."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import numpy as np

from triskele.core.extend import elementwise, load_module

from ..codegen.jets import jet
from ..potentials.pairs.formulas import switch
from .soft_core import SoftCore
from .vector_kernel import LANES, environment8

__all__ = ["generated"]

_SOURCE = """import math

import numpy as np

from triskele.core.extend import device, kernel, simd
from triskele.sponge.alchemy.{file} import {name} as loop
from triskele.sponge.potentials.bonded.term_kernels import inverse_root
{jets}

@kernel(nogil=True)
def {name}({arguments}):
    loop({arguments}, {formulas})
"""


@cache
def generated(core: SoftCore, switched: bool, loop: Any) -> Any:  # loop: `environment`, `inside` or `environment8`
    """The kernel made of a loop."""

    def fading(r2, start, cutoff):
        """The switch."""
        return switch(np.sqrt(r2), start, cutoff) if switched else 1.0 + 0.0 * r2

    def charged(r2, sigma, soft, k_rf, c_rf):
        """Coulomb energy of unit charges."""
        r = core.softened_distance(r2, sigma, soft)
        return 1 / r + k_rf * r * r - c_rf

    if loop is environment8:
        softened = elementwise(
            lambda r2, size2, soft, start, cutoff: core.softened(r2, size2, soft) * fading(r2, start, cutoff)
        )
        jets = {"softened": jet("softened", softened, "r2", width=LANES, root="inverse_root")}
    else:
        softened = elementwise(lambda r2, size2, soft: core.softened(r2, size2, soft))
        jets = {
            "softened": jet("softened", softened, "r2", "soft"),
            "fading": jet("fading", elementwise(fading), "r2"),
            "charged": jet("charged", elementwise(charged), "r2", "soft"),
        }
    arguments = list(inspect.signature(loop).parameters)[: -len(jets)]
    source = _SOURCE.format(
        file=loop.__module__.rpartition(".")[2],
        name=loop.__name__,
        jets="".join(jets.values()),
        arguments=", ".join(arguments),
        formulas=", ".join(jets),
    )
    return getattr(load_module(source, "marked"), loop.__name__)
