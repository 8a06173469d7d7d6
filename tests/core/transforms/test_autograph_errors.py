"""What cannot be recorded of Python's control flow is an error that names the variable and the line."""

import numpy as np
import pytest

from tests.twins.recorded import record
from triskele.core.transforms.autograph.convert import convert


def message(f, *args, error=TypeError):
    with pytest.raises(error) as caught:
        record(f, *args)
    return str(caught.value)


def test_branches_that_disagree():
    def shapes(x):
        if np.sum(x) > 0:
            y = x
        else:
            y = x[:2]
        return y

    text = message(shapes, np.ones(3))
    assert f"{__file__}:{shapes.__code__.co_firstlineno + 1}" in text
    assert (
        "y must have the same shape and dtype after both branches, got float64[3] where the condition holds and "
        "float64[2] where not" in text
    )

    def structure(x):
        y = None
        if x > 0:
            y = x
        return y

    assert "y must have the same structure after both branches" in message(structure, 1.0)

    def returns(x):
        if x > 0:
            return x

    assert "one branch returns, the other does not" in message(returns, 1.0)


def test_variables_without_a_value():
    def branch(x):
        if x > 0:
            y = x
        return y + 1

    assert "y has a value after only one branch of the if at" in message(branch, 1.0, error=UnboundLocalError)

    def loop(n):
        for i in range(n):
            y = i
        return y + 1

    assert "y is assigned in the for at" in message(loop, 3, error=UnboundLocalError)

    def modes(x):
        if x > 0:
            mode = "a"
        else:
            mode = "b"
        return x if mode == "a" else -x

    assert "mode is 'a' or 'b' depending on the if at" in message(modes, 1.0, error=UnboundLocalError)


def test_loop_variables_that_change_type():
    def shape(x, n):
        for _ in range(n):
            x = np.concatenate([x, x])
        return x

    text = message(shape, np.ones(3), 2)
    assert "leaf x was float64[3] and became float64[6]" in text and f"{__file__}:" in text

    def structure(x, n):
        y = None
        for _ in range(n):
            y = x
        return y

    assert "y must keep its structure from step to step" in message(structure, 1.0, 2)

    def static(x):
        mode = "a"
        while x > 0:
            mode = "b"
            x = x - 1
        return mode

    assert "mode is not an array and must stay the same in a traced loop, it was 'a' and became 'b'" in message(
        static, 1.0
    )


def test_conditions_that_are_no_scalars():
    def f(x):
        if x > 0:
            return x
        return -x

    text = message(f, np.ones(3))
    assert "the condition must have one element, got bool[3]" in text and "np.where" in text


def test_what_cannot_be_converted():
    def inside_with(x):
        with np.errstate():
            if x > 0:
                return x
        return -x

    assert "inside with, try or match" in message(inside_with, 1.0)
    assert convert(inside_with)(2.0) == 2.0
