"""Checks of arguments accept what they say, and their messages name the place, the rule and the value."""

import math
import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from triskele import core
from triskele.core import check


@pytest.mark.parametrize("value", [3, np.int32(3), np.uint8(3), np.array(3)])
def test_integers_of_any_kind_become_int(value):
    assert type(check.integer(value, "f: n", 3, 3)) is int


@pytest.mark.parametrize(
    ("value", "low", "high", "rule"),
    [
        (True, None, None, "an integer"),
        (np.True_, 0, None, "an integer >= 0"),
        (1.0, 1, None, "an integer >= 1"),
        ("1", 1, 20, "an integer from 1 to 20"),
        (0, 1, None, "an integer >= 1"),
        (21, 1, 20, "an integer from 1 to 20"),
        (2**64, 0, 2**64 - 1, r"an integer from 0 to 2\*\*64 - 1"),
        (None, None, 5, "an integer <= 5"),
        (np.array([1, 2]), 1, None, "an integer >= 1"),
    ],
)
def test_what_is_not_an_integer_in_range(value, low, high, rule):
    with pytest.raises(KeyError, match=rf"f: n must be {rule}, got .* \(hint\)"):
        check.integer(value, "f: n", low, high, error=KeyError, hint="hint")


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.int64(1), np.array(1.0)])
def test_numbers_of_any_kind_become_float(value):
    assert type(check.number(value, "f: x", 1, 1)) is float
    assert type(check.positive(value, "f: x")) is float


@pytest.mark.parametrize("value", [True, "1", None, 1j, math.nan, -math.inf, math.inf, [1.0, 2.0], 10**400])
def test_what_is_not_a_finite_number(value):
    with pytest.raises(ValueError, match="f: x must be a finite number, got"):
        check.number(value, "f: x")
    with pytest.raises(ValueError, match=r"f: x must be a number >= 0 \(nm\), got"):
        check.number(value, "f: x", 0, unit="nm")
    with pytest.raises(ValueError, match=r"f: x must be a positive number \(nm\), got"):
        check.positive(value, "f: x", "nm")


def test_zero_is_not_positive():
    with pytest.raises(ValueError, match="f: x must be a positive number, got 0"):
        check.positive(0, "f: x")
    assert check.number(0, "f: x", 0) == 0.0


def test_traced_values_raise_their_own_error():
    for test in (lambda x: check.number(x, "f: x"), lambda x: check.positive(x, "f: x")):
        with pytest.raises(core.errors.TracerError):
            core.grad(test)(1.0)
    with pytest.raises(core.errors.TracerError):
        core.jit(lambda n: check.integer(n, "f: n"))(np.int64(3))


def test_the_first_value_that_is_not_finite_is_named():
    x = np.zeros((2, 3))
    assert check.finite(x, "f: x") is x
    x[1, 2] = x[1, 0] = np.nan
    with pytest.raises(ValueError, match=r"f: x must be finite, got nan at 1, 0$"):
        check.finite(x, "f: x")
    with pytest.raises(ValueError, match=r"f: x must be finite, got inf$"):
        check.finite(math.inf, "f: x")


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        (
            "linaer",
            ("linear", "geometric"),
            r"'linear' or 'geometric', got 'linaer' \(did you mean 'linear'\?\) \(hint\)$",
        ),
        (3, (1, 2, 4), r"1, 2 or 4, got 3 \(hint\)$"),
        (None, ["a"], r"'a', got None \(hint\)$"),
        ("x", (), r"one of none, got 'x' \(hint\)$"),
        ("x", {"one": 1, "two": 2, "three": 3, "four": 4}, r"one of one, two, three, four, got 'x' \(hint\)$"),
        ("x", frozenset("dcab"), r"one of a, b, c, d, got 'x' \(hint\)$"),
        ("x", dict.fromkeys(range(999)), r"one of 0, .*, 59, \.\.\. \(999 in all\), got 'x' \(hint\)$"),
        (["a"], ["a", "b"], r"'a' or 'b', got \['a'\]"),
        (np.array(["a", "b"]), ["a", "b"], r"'a' or 'b', got array\("),
    ],
)
def test_what_is_none_of_the_options(value, options, message):
    with pytest.raises(RuntimeError, match=f"f: x must be {message}"):
        check.choice(value, options, "f: x", error=RuntimeError, hint="hint")


def test_one_of_the_options_is_returned():
    assert check.choice("b", (k for k in "abc"), "f: x") == "b"
    assert check.choice(None, [None, "min"], "f: x") is None


class Atom:
    pass


@pytest.mark.parametrize(
    ("value", "types", "message"),
    [
        ("a.pdb", Atom, r"an Atom, got str 'a.pdb'"),
        (None, (Atom, list), "an Atom or a list, got None"),
        (Atom, (Atom, dict, None), r"an Atom, a dictionary or None, got the class Atom \(make one: Atom\(...\)\)"),
        (int, Atom, "an Atom, got the class int"),
        (np.zeros((9, 9)), str, r"a string, got ndarray array.{75}"),
        (len, str, "a string, got builtin_function_or_method"),
        (check, Atom, "an Atom, got module"),
        (Fraction(1, 3), Atom, r"an Atom, got Fraction\(1, 3\)"),
        (1, bool, "True or False, got int 1"),
        ([1] * 99, Callable, r"a function, got list \[1, 1.{75}"),
    ],
)
def test_what_is_of_no_such_kind(value, types, message):
    with pytest.raises(RuntimeError, match=rf"f: x must be {message} \(hint\)$"):
        check.kind(value, types, "f: x", error=RuntimeError, hint="hint")


def test_kinds_are_worded_and_values_returned():
    with pytest.raises(TypeError, match="f: x must be one atom, got int 3$"):
        check.kind(3, Atom, "f: x", "one atom")
    atom = Atom()
    assert check.kind(atom, (Atom, None), "f: x") is atom
    assert check.kind(None, (Atom, None), "f: x") is None
    assert check.kind(np.True_, bool, "f: x") and check.kind(len, Callable, "f: x") is len


@pytest.mark.parametrize(
    ("got", "expected", "message"),
    [
        ((4, 2), ("n", 3), r"\(n, 3\)"),
        ((3,), ("n", 3), r"\(n, 3\)"),
        ((), (5,), r"\(5,\)"),
        ((1,), (), r"\(\)"),
        ((2, 3), ("n", "n"), r"\(n, n\)"),
        ((2,), [(), (np.int64(3),)], r"\(\) or \(3,\)"),
        ((3, 2), (..., 3), r"\(\.\.\., 3\)"),
        ((), (..., "n"), r"\(\.\.\., n\)"),
    ],
)
def test_other_shapes(got, expected, message):
    with pytest.raises(RuntimeError, match=rf"f: x must have shape {message}, got {re.escape(str(got))} \(hint\)$"):
        check.shape(np.zeros(got), expected, "f: x", error=RuntimeError, hint="hint")


@pytest.mark.parametrize(
    ("got", "expected"),
    [((4, 3), ("n", 3)), ((2, 2, 0), ("n", "n", "m")), ((), [(), (3,)]), ((3,), (..., 3)), ((2, 4, 3), (..., "n", 3))],
)
def test_arrays_of_the_shape_are_returned(got, expected):
    x = np.zeros(got)
    assert check.shape(x, expected, "f: x") is x


def test_shapes_of_traced_arrays():
    assert core.grad(lambda x: check.shape(x, (3,), "f: x").sum())(np.zeros(3)).tolist() == [1, 1, 1]


def test_near_names():
    assert check.near("tempreature", ["temperature", "time"]) == " (did you mean 'temperature'?)"
    assert check.near("CARTPOLE", ["CartPole", "Acrobot"]) == " (did you mean 'CartPole'?)"
    assert check.near("x", ["temperature"]) == ""
    assert check.near("tim", ["time", "step"], listing=True) == " (did you mean 'time'? known: time, step)"
    assert check.near("x", [], listing=True) == " (known: none)"
    assert check.near(3, ["time"]) == ""


def test_names_of_other_libraries_are_translated():
    for make, message in (
        (lambda: core.optim.Adam(lr=0.1), "Adam: unknown argument lr .use learning_rate"),
        (lambda: core.jit(abs, static_argnums=0), "jit: unknown argument static_argnums .use static"),
        (lambda: core.jit(donate_argnums=0), "donate_argnums .use donate"),
        (lambda: core.jit(abs, other=0), "jit: unknown argument other$"),
    ):
        with pytest.raises(TypeError, match=message):
            make()
    with pytest.raises(AttributeError, match=r"x\[i\] \+= v"):
        core.jit(lambda x: x.at[0].add(1.0))(np.ones(3))
