"""The lists of kernels that helper processes compile."""

import importlib
import inspect
from collections import namedtuple

import numba
import pytest

from triskele.core.extend import Compiled
from triskele.core.kernels.ahead import _types_of, jobs_of, text_of
from triskele.core.precision import ScaleState


@pytest.mark.parametrize("package", ["core", "sponge", "quantum", "reinforce"])
def test_listed_kernels_exist_and_take_that_many_arguments(package):
    """After a change of kernels: `python -m tests.kernel_lists`."""
    for run in jobs_of(package):
        for module, name, types in run:
            kernel = getattr(importlib.import_module(f"triskele.{module}"), name)
            assert isinstance(kernel, Compiled)
            assert len(inspect.signature(kernel.py_func).parameters) == len(types.split()), f"{module}.{name}"


def test_types_are_written_as_words():
    nb = numba.types
    types = (nb.int64, nb.boolean, nb.complex128, nb.Array(nb.float32, 2, "C"), nb.CPointer(nb.float64))
    assert text_of(types) == "i8 b1 c16 f4[2] *f8"
    assert _types_of(text_of(types)) == types
    scale = nb.BaseTuple.from_types((nb.Array(nb.float64, 1, "C"), nb.int64), ScaleState)
    assert text_of((nb.int64, scale)) == "i8 core.precision.ScaleState(f8[1],i8)"
    assert _types_of("i8 core.precision.ScaleState(f8[1],i8)") == (nb.int64, scale)
    nested = nb.BaseTuple.from_types((scale, nb.int64), ScaleState)
    elsewhere = nb.BaseTuple.from_types((nb.int64,), namedtuple("elsewhere", "i"))
    for other in (
        nested,
        elsewhere,
        nb.Array(nb.float64, 1, "A"),
        nb.Array(nb.float64, 1, "C", readonly=True),
        nb.unicode_type,
    ):
        assert text_of((other,)) is None
