"""Random expressions in custom forces, against OpenMM's Reference platform in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from triskele import core
from triskele.sponge.load.openmm_xml import load_openmm

mm = pytest.importorskip("openmm")

N = 6
RNG = np.random.default_rng(8)
POSITIONS = np.stack(np.meshgrid(*[np.arange(2.0)] * 3), axis=-1).reshape(-1, 3)[:N] * 0.5
POSITIONS += RNG.uniform(-0.1, 0.1, (N, 3))
VALUES = {"a": RNG.uniform(0.5, 2.0, N), "b": RNG.uniform(-1.5, 1.5, N)}
LEAVES = st.sampled_from(["r", "r", "a", "b", "g", "0.5", "2", "1e-2", ".25E+1", "3.", "7e0", "(r)", " r "])
# steps and whole numbers are taken beside the places where rounding decides
UNARY = [
    "sin({})", "cos({})", "sec(tanh({}))", "csc(2+tanh({}))", "tan(tanh({}))", "cot(2+0.5*tanh({}))",
    "asin(0.9*tanh({}))", "acos(0.9*sin({}))", "atan({})", "sinh(tanh({}))", "cosh(tanh({}))",
    "tanh({})", "exp(-({})^2)", "log(2+({})^2)",
    "sqrt(1+({})^2)", "erf({})", "erfc({})", "step({}+0.0123)", "delta({}+0.0123)", "delta(step({}+0.0123))",
    "square({})", "cube(tanh({}))", "recip(2+({})^2)", "abs({})", "floor({}+0.0123)", "ceil({}+0.0123)", "-{}^2",
    "- {}", "({})^3", "(1+({})^2)^-1", "(1+({})^2)^1.5", "(2+sin({}))^-.5", "2^-tanh({})", "tanh({})^2^2", "(({}))",
]  # fmt: skip
BINARY = [
    "{}+{}",
    "{}-{}",
    "{}*{}",
    "{} - -{}",
    "{}*-{}",
    "({})/(2+({})^2)",
    "min({}, {})",
    "max({} ,{})",
    "atan2({}, 2+({})^2)",
    "(1+({})^2)^tanh({})",
    "-{}^2*{}",
    "({}-{})*2",
    "2-({}+{})",
]
TERNARY = [
    "select(step({}+0.0123), {}, {})",
    "select({},{},{})",
    "{}-{}/2*{}",
    "({} - {} + {})^2",
    "{}*{}^2/(1+({})^2)",
]


def filled(forms, inner):
    return st.builds(
        lambda form, x: form.format(*x),
        st.sampled_from(forms),
        st.lists(inner, min_size=forms[0].count("{}"), max_size=forms[0].count("{}")),
    )


PARTS = st.recursive(
    LEAVES, lambda inner: st.one_of(filled(UNARY, inner), filled(BINARY, inner), filled(TERNARY, inner)), max_leaves=7
)


@st.composite
def texts(draw):
    """An expression with up to two definitions, one of which may use the other."""
    first, second, third = draw(PARTS), draw(PARTS), draw(PARTS)
    form = draw(
        st.sampled_from(
            [
                "{0}",
                "d*tanh({0}); d={1}",
                " c - ({0}) ;c = e*sin(e)+{1}; e=tanh({2}) ; ",
                "{0}+tanh(e)*c; c=cos(e)*({1});e={2}",
            ]
        )
    )
    return form.format(first, second, third)


def bonds(text):
    force = mm.CustomBondForce(text)
    for name in VALUES:
        force.addPerBondParameter(name)
    for i in range(N - 1):
        force.addBond(i, i + 1, [VALUES[name][i] for name in VALUES])
    return force


def pairs(text):
    force = mm.CustomNonbondedForce(text.rstrip(" ;") + ";a=a1+a2;b=b1*b2")
    for name in VALUES:
        force.addPerParticleParameter(name)
    for i in range(N):
        force.addParticle([VALUES[name][i] for name in VALUES])
    force.addExclusion(0, 1)
    return force


def both(force, folder):
    """OpenMM's energy and forces, and our system."""
    force.addGlobalParameter("g", 1.7)
    theirs = mm.System()
    for _ in range(N):
        theirs.addParticle(12.0)
    theirs.addForce(force)
    context = mm.Context(theirs, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
    context.setPositions(POSITIONS)
    state = context.getState(getEnergy=True, getForces=True)
    path = folder / "x.xml"
    path.write_text(mm.XmlSerializer.serialize(theirs))
    ours = load_openmm(path, positions=POSITIONS)
    return state.getPotentialEnergy()._value, state.getForces(asNumpy=True)._value, ours


def assert_same(text, energy, forces, found_energy, found_forces):
    scale = max(1.0, np.abs(forces).max())
    assert found_energy == pytest.approx(energy, rel=1e-10, abs=1e-10), text
    np.testing.assert_allclose(found_forces, forces, rtol=0, atol=1e-10 * scale, err_msg=text)


@pytest.mark.parametrize("make", [bonds, pairs])
@settings(max_examples=25, deadline=None)
@given(text=texts())
def test_energies_and_derivatives_are_those_of_openmm(make, text, tmp_path_factory):
    energy, forces, ours = both(make(text), tmp_path_factory.mktemp("x"))
    assume(np.isfinite(energy) and np.all(np.abs(forces) < 1e5))
    total = lambda x: sum((p.energy(p.params, x, None) for p in ours.potentials), 0.0 * x[0, 0])
    assert_same(text, energy, forces, float(total(POSITIONS)), -core.grad(total)(POSITIONS))


@pytest.mark.slow
@pytest.mark.parametrize("make", [bonds, pairs])
@settings(max_examples=6, deadline=None)
@given(text=texts())
def test_kernels_are_those_of_openmm(make, text, tmp_path_factory):
    energy, forces, ours = both(make(text), tmp_path_factory.mktemp("x"))
    assume(np.isfinite(energy) and np.all(np.abs(forces) < 1e5))
    assert_same(text, energy, forces, ours.energy(), ours.forces())


@pytest.mark.parametrize("make", [bonds, pairs])
def test_a_kernel_with_every_function(make, tmp_path):
    text = "+".join(f"{k}*({form.format('(r*0.7+a*0.3)')})" for k, form in enumerate(UNARY, 1))
    energy, forces, ours = both(make(f"{text}+min(b,r)*max(r,a)+atan2(r,a)+select(step(r-0.51),r,b)"), tmp_path)
    assert_same(text, energy, forces, ours.energy(), ours.forces())
