"""Values that a function captures and that change after it was compiled take effect, or raise an error."""

import gc
import pickle
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from tests.twins.molecules import pair
from triskele import core, sponge
from triskele.core.errors import TracerError
from triskele.sponge import cv
from triskele.sponge.errors import CheckpointError, StaleSimulationError

STRENGTH, TABLE, SETTINGS = 1.0, np.array([1.0]), SimpleNamespace(strength=1.0)


class Constants:
    strength = 1.0


class Spring:
    def __init__(self):
        self.strength = 1.0

    def __call__(self, r):
        return self.scaled() * r

    def scaled(self):
        return self.strength


@core.elementwise
def _inner(r):
    return STRENGTH * r


def _helper(r):
    return STRENGTH * r


def _captured():
    strength = 1.0

    def function(r):
        return strength * r

    def change(value):
        nonlocal strength
        strength = value

    return function, change


def _default(r, strength=TABLE):
    return strength[0] * r


def _cases():
    spring, (captured, change) = Spring(), _captured()

    def everywhere(value):
        global STRENGTH
        STRENGTH = TABLE[0] = SETTINGS.strength = Constants.strength = spring.strength = value
        change(value)

    return everywhere, {
        "global": lambda r: STRENGTH * r,
        "captured": captured,
        "another function": lambda r: _helper(r),
        "elementwise": lambda r: _inner(r),
        "array": lambda r: TABLE[0] * r,
        "object": lambda r: SETTINGS.strength * r,
        "class": lambda r: Constants.strength * r,
        "method": lambda r: spring(r),
        "inside": lambda r: [STRENGTH * s for s in [r]][0],
    }


def _distance(function):
    return lambda x: function(np.sqrt(np.sum((x[0] - x[1]) ** 2)))


KINDS = {
    "bond_potential": lambda f: sponge.bond_potential(f)([[0, 1]]),
    "pair_potential": lambda f: sponge.pair_potential(f)(),
    "shifted pair_potential": lambda f: sponge.pair_potential(f)(cutoff=1.0, switch=0.9, shift=False),
    "FunctionPotential": lambda f: sponge.FunctionPotential(_distance(f)),
    "BiasPotential": lambda f: sponge.BiasPotential(f, cv.distance(0, 1)),
    "variable": lambda f: sponge.BiasPotential(lambda s: s, cv.function(_distance(f), [0, 1])),
}


@pytest.mark.parametrize("kind", KINDS)
def test_captured_values_of_functions_are_read_again(kind):
    everywhere, cases = _cases()
    if kind.startswith("shifted"):
        cases = {"global": cases["global"]}
    everywhere(1.0)
    system = pair(0.4)
    for name, function in cases.items():
        potential = KINDS[kind](function)
        potential.name = name
        system.add(potential)
    for value in (1.0, 3.0, 2.0):
        everywhere(value)
        wanted = dict.fromkeys(cases, pytest.approx(0.4 * value))
        assert system.energy_terms() == wanted
        assert {p.name: p.energy(p.params, system.positions, None) for p in system.potentials} == wanted
        assert system.forces()[1, 0] == pytest.approx(-value * len(cases))
    sim = sponge.Simulation(system, sponge.VelocityVerlet(0.001))
    sim.run(1)
    everywhere(1.0)
    with pytest.raises(StaleSimulationError, match="function"):
        sim.run(1)


def test_objects_in_potentials_count():
    class Pull(sponge.Potential):
        def __init__(self, settings):
            self.name, self.params, self.settings = "pull", {}, settings

        def energy(self, params, positions, box):
            return self.settings.strength * positions[1, 0]

    settings = SimpleNamespace(strength=1.0)
    system = pair(0.4)
    system.add(Pull(settings))
    sim = sponge.Simulation(system, sponge.VelocityVerlet(0.001))
    assert system.energy() == pytest.approx(0.4)
    settings.strength = 2.0
    assert system.energy() == pytest.approx(0.8)
    with pytest.raises(StaleSimulationError, match="pull"):
        sim.run(1)


def test_defaults_of_functions_count():
    TABLE[0] = 1.0
    system = pair(0.4)
    system.add(sponge.FunctionPotential(_distance(_default)))
    assert system.energy() == pytest.approx(0.4)
    TABLE[0] = 2.0
    assert system.energy() == pytest.approx(0.8)


def test_checkpoints_of_another_value_are_refused(tmp_path):
    def made(strength):
        system = pair(0.4)
        system.add(sponge.FunctionPotential(lambda x: strength * np.sum((x[0] - x[1]) ** 2)))
        return sponge.Simulation(system, sponge.VelocityVerlet(0.001))

    made(1.0).save(tmp_path / "a.chk")
    made(1.0).load(tmp_path / "a.chk")
    with pytest.raises(CheckpointError, match="function"):
        made(2.0).load(tmp_path / "a.chk")


def _step(r):
    if r > 0.5:
        return 0.0
    return 2.0 * r


@pytest.mark.parametrize("kind", KINDS)
def test_branches_on_values_are_exact_or_refused(kind):
    system = pair()
    if kind in ("bond_potential", "pair_potential"):
        potential = system.add(KINDS[kind](_step))
        for r in (0.3, 0.7, 0.3):
            x = np.array([[0, 0, 0], [r, 0, 0]])
            assert system.energy(x) == pytest.approx(_step(r)) == potential.energy(potential.params, x, None)
            assert system.forces(x)[1, 0] == pytest.approx(-2.0 * (r < 0.5))
    elif not kind.startswith("shifted"):
        with pytest.raises(TracerError, match="np.where"):
            system.add(KINDS[kind](_step))
            system.energy()


@pytest.mark.parametrize("kind", KINDS)
def test_functions_are_not_kept_for_ever(kind):
    big = np.ones(1000)

    def function(r):
        return r * big[0]

    system = pair()
    system.add(KINDS[kind](function))
    twins = system.copy(), pickle.loads(pickle.dumps(system))
    assert [t.potentials[0].energy({}, system.positions, None) for t in twins] == pytest.approx([0.3, 0.3])
    watched = weakref.ref(function)
    del system, twins, function
    gc.collect()
    assert watched() is None
