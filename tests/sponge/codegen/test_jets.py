"""Jets of formulas of pairs: derivatives in code against those that the core makes of the NumPy form."""

import math

import numpy as np
import pytest

from triskele import core
from triskele.core.extend import Elementwise
from triskele.sponge.alchemy import Beutler, Gapsys
from triskele.sponge.codegen.jets import directional, jet
from triskele.sponge.potentials.nonbonded.energy import Form, coulomb, lennard_jones

FORMS = {
    "reaction field": (coulomb, Form("reaction_field", "geometric", 0.9, 5, k_rf=0.6, c_rf=1.7)),
    "Ewald": (coulomb, Form("pme", "geometric", 0.9, 5, alpha=3.2)),
    "arithmetic": (lennard_jones, Form("cutoff", "lorentz_berthelot", 0.9, 5)),
    "switched": (lennard_jones, Form("cutoff", "geometric", 0.95, 5, switch=0.7)),
    "table": (lennard_jones, Form("cutoff", "table", 0.9, 5)),
    "force switch": (lennard_jones, Form("cutoff", "geometric", 0.95, 5, switch=0.7, modifier="force-switch")),
    "shift": (lennard_jones, Form("cutoff", "table", 0.9, 5, modifier="potential-shift")),
    "dispersion": (lennard_jones, Form("ljpme", "lorentz_berthelot", 0.9, 5, alpha=3.0, lj_alpha=2.9)),
    "near dispersion": (lennard_jones, Form("ljpme", "geometric", 0.9, 5, alpha=3.0, lj_alpha=0.3)),
}


def _run(function, by, points):
    """Values and derivatives from the generated function, which is plain Python, at all points."""
    scope = {"math": math, "np": np, "device": lambda function: function}
    exec(jet("generated", function, *by), scope)
    return np.array([scope["generated"](*map(float, point)) for point in points])


@pytest.mark.parametrize("case", FORMS)
def test_jets_are_the_derivatives_of_the_numpy_form(case):
    function, form = FORMS[case]
    names = ["r2", *("ab" if function is coulomb else "abcd")]
    rng = np.random.default_rng(0)
    points, moves = rng.uniform(0.3, 0.9, (50, len(names))), rng.normal(size=(50, len(names)))
    points[:, 0] **= 2

    def energy(points):
        return np.sum(function(form, form, *points.T))

    pair = Elementwise(lambda *args: function(form, form, *args), names)
    gradient, second = core.grad(energy)(points), core.hvp(energy, (points,), (moves,))
    found = _run(pair, names, points)
    np.testing.assert_allclose(np.sum(found[:, 0]), energy(points), rtol=1e-12)
    np.testing.assert_allclose(found[:, 1:], gradient, rtol=1e-10, atol=1e-12 * np.abs(gradient).max())
    found = _run(directional(pair, names), names, np.column_stack([points, moves]))
    np.testing.assert_allclose(
        found[:, 0], np.sum(gradient * moves, axis=1), rtol=1e-10, atol=1e-12 * np.abs(gradient).max()
    )
    np.testing.assert_allclose(found[:, 1:], second, rtol=1e-10, atol=1e-12 * np.abs(second).max())


@pytest.mark.parametrize("soft_core", [Beutler(), Beutler(c=4), Gapsys()], ids=str)
def test_jets_of_soft_cores_are_slopes_of_their_energy(soft_core):
    rng = np.random.default_rng(0)
    points = rng.uniform([0.01, 0.2, 0.3], [0.9, 0.9, 1.0], (50, 3))
    softened = Elementwise(lambda *args: soft_core.softened(*args), ("r2", "size2", "soft"))
    found = _run(softened, ("r2", "soft"), points)
    np.testing.assert_allclose(found[:, 0], soft_core.softened(*points.T), rtol=1e-12, atol=1e-12)
    for column, k in ((1, 0), (2, 2)):
        step = 1e-6 * np.eye(3)[k]
        slope = (soft_core.softened(*(points + step).T) - soft_core.softened(*(points - step).T)) / 2e-6
        np.testing.assert_allclose(found[:, column], slope, rtol=1e-5, atol=1e-7 * np.abs(slope).max())


def test_a_parabola_has_no_force_where_the_atoms_are_one():
    softened = Elementwise(lambda *args: Gapsys().softened(*args), ("r2", "size2", "soft"))
    value, slope, by_soft = _run(softened, ("r2", "soft"), [(0.0, 0.09, 0.8)])[0]
    assert value > 0 and slope == 0 and np.isfinite(by_soft)
