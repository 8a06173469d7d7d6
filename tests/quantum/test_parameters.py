"""Angles: numbers, names, and linear expressions of names."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triskele import quantum
from triskele.quantum.errors import ParameterError
from triskele.quantum.parameters import Linear, Parameter, angle

NUMBERS = st.floats(-100, 100, allow_nan=False)
EXPRESSIONS = st.builds(
    lambda terms, constant: sum((c * Parameter(n) for n, c in terms), Linear(())) + constant,
    st.lists(st.tuples(st.sampled_from("abc"), NUMBERS), max_size=4),
    NUMBERS,
)
VALUES = {"a": 0.3, "b": -2.0, "c": 11.0}


@given(EXPRESSIONS, EXPRESSIONS, NUMBERS)
def test_arithmetic_is_that_of_the_values(x, y, k):
    for made, expected in (
        (x + y, x(VALUES) + y(VALUES)),
        (x - y, x(VALUES) - y(VALUES)),
        (k * x, k * x(VALUES)),
        (x * k, k * x(VALUES)),
        (-x, -x(VALUES)),
        (x + k, x(VALUES) + k),
        (k - x, k - x(VALUES)),
        (x / 4, x(VALUES) / 4),
    ):
        assert made(VALUES) == pytest.approx(expected, abs=1e-9)


@given(EXPRESSIONS)
def test_text_reads_back(x):
    read = angle(str(x))
    value = read(VALUES) if isinstance(read, Linear) else read
    assert value == pytest.approx(x(VALUES), rel=1e-9, abs=1e-9)


@given(EXPRESSIONS)
def test_binding_in_steps(x):
    left = x.bind({"a": VALUES["a"]})
    total = left.bind({"b": VALUES["b"], "c": VALUES["c"]}) if isinstance(left, Linear) else left
    assert total == pytest.approx(x(VALUES), abs=1e-9)


@pytest.mark.parametrize(
    ("text", "terms", "constant"),
    [
        ("a", {"a": 1}, 0),
        ("2*a", {"a": 2}, 0),
        ("2a - b/4 + 1.5", {"a": 2, "b": -0.25}, 1.5),
        ("-x[0] + pi", {"x[0]": -1}, math.pi),
        (" a + a ", {"a": 2}, 0),
        ("1e-3*t", {"t": 1e-3}, 0),
        (".5*t-.5", {"t": 0.5}, -0.5),
        ("layer_1.q2", {"layer_1.q2": 1}, 0),
        ("pi*a", {"a": math.pi}, 0),
        ("(a+b)/2", {"a": 0.5, "b": 0.5}, 0),
        ("a*2 - pi/4*b", {"a": 2, "b": -math.pi / 4}, 0),
        ("-(2*(a - 3) + pi)*0.5/2", {"a": -0.5}, 1.5 - math.pi / 4),
        ("2 pi * a/(1 + 3)", {"a": math.pi / 2}, 0),
        ("a - -b", {"a": 1, "b": 1}, 0),
        (".5e1*a", {"a": 5}, 0),
        ("0*a + 1", {}, 1),
    ],
)
def test_expressions_as_text(text, terms, constant):
    expression = angle(text) if terms else Linear((), angle(text))
    assert dict(expression.terms) == pytest.approx(terms, rel=1e-15)
    assert expression.constant == pytest.approx(constant)


def test_other_ways_to_give_an_angle():
    assert angle("pi/2") == math.pi / 2
    assert angle({"a": 2, "b": 0.5}) == Linear((("a", 2.0), ("b", 0.5)))
    assert angle(Parameter("a") - Parameter("a") + 2) == 2.0
    assert type(angle(3)) is float


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "a b",
        "2**a",
        "a*b",
        "+",
        "sin(a)",
        "a +",
        "2 2",
        "(a",
        "a)",
        "()",
        "1/a",
        "a*(b + 1)",
        "a/0",
        "a/(1 - 1)",
        "2(a)",
        "(" * 1000 + "a",
        "-" * 1000 + "a",
    ],
)
def test_text_that_is_no_linear_expression(bad):
    with pytest.raises(ParameterError, match="rx: "):
        angle(bad, "rx")


@pytest.mark.parametrize("bad", [math.nan, math.inf, None, [1.0], 1j, "nan*a"])
def test_what_is_no_angle(bad):
    if bad == "nan*a":  # a name like any other, and then a product of two names
        bad = "nan*a*b"
    with pytest.raises(ParameterError, match="rx"):
        quantum.Circuit(1).rx(bad, 0)


@pytest.mark.parametrize("bad", ["", "1a", "a b", "a-b", 3, None])
def test_what_is_no_name(bad):
    with pytest.raises(ParameterError, match="a name is letters"):
        Parameter(bad)


def test_names_keep_the_order_of_first_appearance():
    circuit = quantum.Circuit(2).rx("b", 0).ry("2*c - b", 1).rz("a", 0)
    assert circuit.parameters == ("b", "c", "a")
    assert circuit.rename({"b": "x"}).parameters == ("x", "c", "a")
