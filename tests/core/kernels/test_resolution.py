"""Operations resolved once per compilation."""

import numpy as np
import pytest
from numba import types
from numba.core.types.functions import BaseFunction
from numba.extending import overload

from triskele.core.kernels.njit import kernel
from triskele.core.kernels.resolution import remembered


def _twice(x):
    raise NotImplementedError


def test_results_are_those_of_python():
    def mixed(x, n):
        total = 0.0
        for i in range(len(x)):
            total = total + x[i] * i - x[i] // 2 + min(i, n) + (i % 3 if i > n else -i)
        return total

    x = np.linspace(-3.0, 4.0, 9)
    assert kernel(cache=False)(mixed)(x, 4) == mixed(x, 4)
    assert kernel(cache=False)(mixed)(x.astype(np.float32), 4) == pytest.approx(mixed(x, 4), rel=1e-6)


def test_each_operation_is_searched_once(monkeypatch):
    searched, search = [], BaseFunction.get_call_type

    def spy(self, context, args, kws):
        searched.append((str(self), args))
        return search(self, context, args, kws)

    monkeypatch.setattr(BaseFunction, "get_call_type", spy)

    def four_sums(a, b):
        return a + b, a + b, b + a, a + b

    assert kernel(cache=False)(four_sums)(1.0, 2.0) == (3.0,) * 4
    sums = [args for name, args in searched if "<built-in function add>" in name and args == (types.float64,) * 2]
    assert len(sums) == 1
    assert BaseFunction.get_call_type is spy


def test_overload_of_a_later_type_is_seen():
    @overload(_twice)
    def _(x):
        return (lambda x: 2 * x) if isinstance(x, types.Integer) else None

    @kernel(cache=False)
    def call(x):
        return _twice(x)

    assert call(3) == 6

    @overload(_twice)
    def _(x):
        return (lambda x: x + x) if isinstance(x, types.Float) else None

    assert call(1.5) == 3.0


def test_search_is_restored_after_an_error():
    search = BaseFunction.get_call_type
    with pytest.raises(ZeroDivisionError), remembered():
        assert BaseFunction.get_call_type is not search
        raise ZeroDivisionError
    assert BaseFunction.get_call_type is search
