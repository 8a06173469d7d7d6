"""Programs by address: what they read in place, and what is refused."""

import numpy as np
import pytest

from triskele import core
from triskele import reinforce as rl
from triskele.reinforce.rules.program import Batch
from triskele.reinforce.training.rollout import Rollout


@pytest.mark.parametrize("slope", [np.array(2.0), np.array(2.0, np.float32), np.array(2), np.array([2.0])])
def test_arrays_are_read_at_each_run_also_those_of_no_axis(slope):
    line = Batch(core.jit(lambda slope, x: (np.ravel(slope)[0] * x,)), slope, 3, ((), np.float64))
    line.inputs[0][:] = 1
    line.run()
    assert line.outputs[0][0] == 2
    slope[...] = 7
    line.run()
    assert line.outputs[0][0] == 7


def test_a_number_of_a_model_may_change_between_collections():
    def act(model, x, noise, mask=None):
        action = np.zeros(np.shape(x)[0], np.int64)
        return action, action, noise[:, 0], model["value"] + np.zeros_like(noise[:, 0])

    rollout, noise = Rollout(rl.make("CartPole-v1", 3, seed=0), act, 4), np.zeros((5, 3, 1), np.float32)
    for value in (np.array(0.5, np.float32), np.float32(1.5), np.array(2.5, np.float32)):
        rollout.collect({"value": value}, noise)
        assert (rollout.values == value).all()
    fresh = Rollout(rl.make("CartPole-v1", 3, seed=0), act, 4)
    with pytest.raises(TypeError, match=r"the leaves of a model must be arrays, got float 0\.5"):
        fresh.collect({"value": 0.5}, noise)
