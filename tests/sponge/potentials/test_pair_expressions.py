"""`sponge.pair`, and expressions against NumPy's evaluation of the same text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import core, sponge
from triskele.sponge.codegen.expressions import parse
from triskele.sponge.errors import FileFormatError
from triskele.sponge.potentials.pairs.terms import _mixed
from triskele.sponge.testing import check_potential, example_system

MIXED = "4*eps*((s/r)^12-(s/r)^6); s=0.5*(sigma1+sigma2); eps=sqrt(epsilon1*epsilon2)"
LEAVES = st.sampled_from(["a", "b", "c", "0.5", "2", "1.75", ".25e1"])
OPERATIONS = [
    "({}+{})",
    "({}-{})",
    "({}*{})",
    "(({})/(2+({})^2))",
    "min({}, {})",
    "max({}, {})",
    "atan2({}, 2+{}^2)",
    "select({}, {}, 1.5)",
    "(-{}+{})",
]
FUNCTIONS = [
    "sin({})",
    "cos({})",
    "tanh({})",
    "exp(-({})^2)",
    "sqrt(1+({})^2)",
    "abs({})",
    "step({})",
    "square({})",
    "cube(tanh({}))",
    "recip(2+({})^2)",
    "erf({})",
    "log(2+({})^2)",
    "floor({})",
    "-{}^2",
    "({})^3",
]
TEXTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda f, x: f.format(x), st.sampled_from(FUNCTIONS), inner),
        st.builds(lambda f, x, y: f.format(x, y), st.sampled_from(OPERATIONS), inner, inner),
    ),
    max_leaves=8,
)


def numpy_value(text, values):
    """The value by Python's own parser."""
    from scipy.special import erf

    names = {
        "min": np.minimum,
        "max": np.maximum,
        "atan2": np.arctan2,
        "square": np.square,
        "erf": erf,
        "select": lambda c, x, y: np.where(c != 0, x, y),
        "step": lambda x: np.where(x >= 0, 1.0, 0.0),
        "cube": lambda x: x**3,
        "recip": lambda x: 1 / x,
    }
    names |= {f: getattr(np, f) for f in ("sin", "cos", "tanh", "exp", "sqrt", "abs", "log", "floor")}
    return eval(re.sub(r"\^", "**", text), names | values)


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_expressions_are_what_python_reads(text):
    values = {"a": np.array([0.3, -1.2, 2.5]), "b": np.array([1.1, 0.7, -0.4]), "c": np.array([-2.0, 0.6, 1.9])}
    expected = np.broadcast_to(numpy_value(text, values), 3)
    assert np.broadcast_to(parse(text, "x")(values), 3) == pytest.approx(expected, rel=1e-11, abs=1e-11)
    named = f"d*1 + 0*e; d = {text}; e = a"
    assert np.broadcast_to(parse(named, "x")(values), 3) == pytest.approx(expected, rel=1e-11, abs=1e-11)


def atoms(n, seed=0):
    rng = np.random.default_rng(seed)
    return {"sigma": rng.choice([0.1, 0.12, 0.15], n), "epsilon": rng.choice([0.5, 1.0], n)}


def test_lennard_jones_is_the_built_in_one():
    n = 40
    own = atoms(n)
    x = np.random.default_rng(1).uniform(0, 1.4, (n, 3))
    options = {"n": n, "box": [1.5, 1.6, 1.7], "positions": x, "exclusions": [[0, 1], [5, 9]]}
    pair = example_system(sponge.pair(MIXED, cutoff=0.6, switch=0.5, **own), **options)
    built_in = sponge.Nonbonded(
        np.zeros(n), own["sigma"], own["epsilon"], method="cutoff", cutoff=0.6, switch=0.5, dispersion_correction=False
    )
    plain = example_system(built_in, **options)
    assert pair.energy() == pytest.approx(plain.energy(), rel=1e-9)
    np.testing.assert_allclose(pair.forces(), plain.forces(), rtol=1e-9, atol=1e-9 * np.abs(plain.forces()).max())


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (MIXED, ["arithmetic", "product"]),
        ("sqrt(epsilon1*epsilon2)*(sigma1+sigma2)^3*exp(-r)", ["product", "arithmetic"]),
        ("-q1*q2/r - 3*r^2", ["product"]),  # of both signs
        ("(q1+q2)*r", ["table"]),  # a sum of both signs would lose digits in float32
        ("(q1*q2-1)*(sigma1+sigma2)/r", ["table"]),
        ("-(sigma1+sigma2)^2*(3+g)*epsilon1*epsilon2*r", ["product", "arithmetic"]),
        ("-epsilon1*epsilon2*r", ["product"]),
        ("min(0, -epsilon1*epsilon2)*r", ["same", "product"]),  # a product and its sign
        ("exp(-(sigma1+sigma2)*r)/(sigma1+sigma2)^2", ["arithmetic", "table"]),  # a division costs more than a gather
        ("(sigma1+sigma2)*r^3 + g*r", ["arithmetic", "same"]),
        ("max(epsilon1, epsilon2)*r + 2*g", ["table", "same"]),
    ],
)
def test_coefficients_are_taken_apart(text, rules):
    names = [k for k in ("g", "q", "sigma", "epsilon") if k in text]
    given = {"g": 1.5, "q": np.tile([0.3, -0.7, 0.0, 1.1], 3), **atoms(12)}
    potential = sponge.pair(text, **{k: given[k] for k in names}, cutoff=0.5)
    function, found, values = potential.kernel_form()
    assert sorted(found.values()) == sorted(rules)
    i, j = np.indices((12, 12)).reshape(2, -1)
    mixed = [_mixed(rule, values[k], i, j, (potential.types[i], potential.types[j])) for k, rule in found.items()]
    tables = [
        c[potential.types[i], potential.types[j]] if np.ndim(c) else c
        for c in potential.coefficients(potential.params).values()
    ]
    np.testing.assert_allclose(function(0.3, *mixed), potential.function(0.3, *tables), rtol=1e-12)


def test_kernels_with_values_of_atoms_are_those_with_tables():
    potential = sponge.pair(
        "-(sigma1+sigma2)^2*epsilon1*epsilon2*r^4 + 3*q1*q2/(r^2+1) - (q1+q2)^2",
        **atoms(12),
        q=np.tile([0.3, -0.7, 0.0, 1.1], 3),
        cutoff=0.5,
    )
    assert set(potential.kernel_form()[1].values()) == {"arithmetic", "product", "table"}
    check_potential(potential, example_system())


@pytest.mark.parametrize("text", ["g*q1*q2*exp(-r/0.2)/r", "g*(q1+q2)^2*t(k1,k2)/(0.1+r)^2", "g*r^2"])
def test_parameters_are_differentiable(text):
    params = {"g": 1.5} | ({"q": np.linspace(-1, 1, 12), "k": np.arange(12) % 2} if "q" in text else {})
    functions = {"t": sponge.Tabulated([[1.0, 2.0], [2.0, 3.0]])} if "t(" in text else None
    potential = sponge.pair(text, functions=functions, cutoff=0.44, **params)
    check_potential(potential, example_system(exclusions=[[0, 1]]))
    system = example_system(potential)
    slope = core.grad(system.energy_function())(system.params(), system.positions, None)["pair"]["g"]
    assert slope == pytest.approx(system.energy() / 1.5, rel=1e-12)


@pytest.mark.parametrize("root", ["sqrt(e1*e2)", "(e1*e2)^0.5"])
def test_derivatives_by_depths_of_zero(root):
    """They are those of the built-in potential: an atom without Lennard-Jones has none."""
    x, s, e = np.random.default_rng(1).uniform(0, 1.4, (8, 3)), np.full(8, 0.3), np.arange(8) % 3.0
    text = f"4*{root}*((s/r)^12-(s/r)^6); s=0.5*(s1+s2)"
    potential = sponge.pair(text, types=np.arange(8), s=s, e=e)
    slopes = core.grad(lambda p: potential.energy(p, x, None))(potential.params)
    own = sponge.Nonbonded(np.zeros(8), s, e, method="none")
    expected = core.grad(lambda p: own.energy(p, x, None))(own.params)
    np.testing.assert_allclose(slopes["e"], expected["epsilons"], rtol=1e-9)
    np.testing.assert_allclose(slopes["s"], expected["sigmas"], rtol=1e-9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4*epss*r; eps = 2", r"'epss' is not known.*position 2 \('epss\*r; eps"),
        ("k*foo(r)", r"function 'foo' is not supported.*known: .*sqrt.*position 2"),
        ("k*(r+1", r"'\)' is missing at the end, at position 5"),
        ("k*(r+", r"an operand is missing at the end"),
        ("k*r; k = 3 3", r"'3' must not stand where it does, at position 11"),
        ("k*r ? 2", r"'\?' is not known, at position 4"),
        ("k*r*1e400", r"numbers must be finite, got 1e400, at position 4"),
        ("min(r)", r"min must have 2 arguments, got 1, at position 0"),
        ("r*x; x", r"must be a definition"),
        ("s1*r", r"same|symmetric"),
    ],
)
def test_errors_name_the_place_and_the_known_names(text, message):
    with pytest.raises((FileFormatError, ValueError), match=message):
        sponge.pair(text, k=1.0, s=[1.0, 2.0], cutoff=1.0)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([1.0, 2.0, 1.0], None, True), "must have ranges"),
        (([1.0, 2.0, 3.0], []), "for each of 1 axes"),
        (([1.0, 2.0, 3.0], [(0.0, np.inf)]), "two finite ends"),
        (([1.0, 2.0, 3.0], [(1.0, 0.0)]), "min < max"),
    ],
)
def test_tables_must_have_ends(arguments, match):
    with pytest.raises(ValueError, match=match):
        sponge.Tabulated(*arguments)


def test_arrays_must_fit():
    with pytest.raises(ValueError, match=r"one length, got s \(2,\), k \(3,\)"):
        sponge.pair("s1*s2*k1*k2", s=[1.0, 2.0], k=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="at most 2000 kinds"):
        sponge.pair("s1*s2*r", s=np.arange(3000.0))
