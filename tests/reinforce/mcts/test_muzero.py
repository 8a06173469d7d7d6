"""MuZero's search of a learned model, with its own rule and with Gumbel's: equal to mctx, step for step."""

import json
import math
from pathlib import Path

import numba
import numpy as np
import pytest

from triskele import core
from triskele import reinforce as rl

DATA = Path(__file__).parents[2] / "data" / "reinforce"
CASES = {c["name"]: c for c in json.loads((DATA / "mctx_reference.json").read_text())["cases"]}
PLAIN = rl.MuZeroPUCT(dirichlet=(0.3, 0.0), temperature=0.0)


@pytest.fixture(scope="module")
def reference():
    with np.load(DATA / "mctx_reference.npz") as file:
        return {name: file[name] for name in file.files}


def tables(reference, name):
    """P[s, a] where an action leads, R[s, a] reward, D[s, a] discount, L[s, :] logits, V[s]."""
    return {k: reference[f"{name}_{k}"].astype(np.int64 if k == "P" else np.float32) for k in "PRVLD"}


def dynamics(t, s, a):
    return t["P"][s, a], t["R"][s, a], t["D"][s, a]


def prediction(t, s):
    return t["L"][s], t["V"][s]


def tabular(params, actions, dynamics=dynamics, **kwargs):
    return rl.LearnedModel(lambda t, s: s, dynamics, prediction, params, num_actions=actions, **kwargs)


@pytest.mark.parametrize("name", CASES)
def test_searches_equal_mctx(reference, name):
    case = CASES[name]
    most = case["kwargs"].get("max_num_considered_actions", 16)
    policy = rl.Gumbel(max_considered_actions=most, gumbel_scale=0.0) if case["alg"] == "gumbel" else PLAIN
    search = rl.MuZero(tabular(tables(reference, name), case["A"]), simulations=case["sims"], policy=policy)
    invalid = reference.get(f"{name}_invalid")
    found = search(reference[f"{name}_root"].astype(np.int64), None if invalid is None else ~invalid)
    np.testing.assert_array_equal(found.visits, reference[f"{name}_visit_counts"])
    np.testing.assert_array_equal(found.action, reference[f"{name}_action"])
    for ours, theirs in ((found.root_value, "root_value"), (found.values, "qvalues"), (found.policy, "action_weights")):
        np.testing.assert_allclose(ours, reference[f"{name}_{theirs}"], atol=1e-5, rtol=0)


def test_a_model_of_numba_functions_is_searched_alike(reference):
    name = "gumbel_p1_32"
    t = tables(reference, name)

    @numba.njit
    def represent(t, observation, embedding):
        embedding[0] = observation

    @numba.njit
    def move(t, embedding, action, following):
        s = embedding[0]
        following[0] = t[0][s, action]
        return t[1][s, action], t[4][s, action]

    @numba.njit
    def predict(t, embedding, logits):
        logits[:] = t[3][embedding[0]]
        return t[2][embedding[0]]

    roots = reference[f"{name}_root"].astype(np.int64)
    model = rl.LearnedModel(
        represent, move, predict, tuple(t[k] for k in "PRVLD"), num_actions=5, embedding=((1,), np.int64)
    )
    found = rl.MuZero(model, 32, rl.Gumbel(gumbel_scale=0.0))(roots)
    np.testing.assert_array_equal(found.visits, reference[f"{name}_visit_counts"])
    np.testing.assert_allclose(found.policy, reference[f"{name}_action_weights"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("policy", [rl.Gumbel(), rl.MuZeroPUCT()], ids=["gumbel", "muzero"])
def test_a_tree_does_not_depend_on_those_beside_it(reference, policy):
    search = rl.MuZero(tabular(tables(reference, "gumbel_p1_32"), 5), 32, policy, seed=3)
    roots = np.arange(40) % 7
    many = search(roots)
    for n in (1, 2, 17):
        few = search(roots[:n])
        assert few.visits.tolist() == many.visits[:n].tolist() and few.action.tolist() == many.action[:n].tolist()
        np.testing.assert_array_equal(few.policy, many.policy[:n])
    assert search(roots, seed=4).visits.tolist() != many.visits.tolist()  # noise comes from the seed


def test_threads_share_the_trees_and_change_nothing(reference):
    roots, found, before = np.arange(150) % 7, [], core.get_threads()
    try:
        for n in (1, 2, 3):
            core.set_threads(n)
            found.append(rl.MuZero(tabular(tables(reference, "gumbel_p1_32"), 5), 32, seed=3)(roots))
    finally:
        core.set_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].policy, other.policy)
        np.testing.assert_array_equal(found[0].action, other.action)


def test_visits_add_up_and_illegal_actions_have_none(reference):
    legal = np.ones((8, 5), bool)
    legal[:, 1], legal[0, 2:] = False, False
    for policy in (rl.Gumbel(), rl.MuZeroPUCT()):
        found = rl.MuZero(tabular(tables(reference, "muzero_p1_32"), 5), 50, policy)(np.arange(8), legal)
        assert (
            (found.visits.sum(1) == 50).all()
            and (found.visits[~legal] == 0).all()
            and (found.policy[~legal] == 0).all()
        )
        np.testing.assert_allclose(found.policy.sum(1), 1)
        assert legal[np.arange(8), found.action].all() and found.action[0] == 0


def test_the_discount_of_the_model_serves_where_dynamics_gives_none(reference):
    t = tables(reference, "muzero_p1_32")
    t["D"] = np.full_like(t["D"], 0.9)
    given = rl.MuZero(tabular(t, 5), 40, PLAIN)(np.arange(6))
    fixed = rl.MuZero(tabular(t, 5, lambda t, s, a: dynamics(t, s, a)[:2], discount=0.9), 40, PLAIN)(np.arange(6))
    np.testing.assert_array_equal(given.visits, fixed.visits)


def test_a_model_that_gives_no_numbers_is_named_and_the_search_stays_usable(reference):
    t = tables(reference, "muzero_p1_32")
    search = rl.MuZero(tabular(t, 5), 40, PLAIN)
    before = search(np.arange(4))
    bad = t | {"V": np.full_like(t["V"], math.nan)}
    with pytest.raises(
        rl.EvaluatorError,
        match=r"MuZero: the model must give finite numbers, got NaN or infinity at "
        r"node 0 \(after \(\)\) from observation 0",
    ):
        search(np.arange(4), params=bad)
    bad = t | {"R": np.full_like(t["R"], math.inf)}
    with pytest.raises(rl.EvaluatorError, match=r"at node 1 \(after \(\d,\)\)"):
        search(np.arange(4), params=bad)
    np.testing.assert_array_equal(search(np.arange(4)).visits, before.visits)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: tabular(t, 5, lambda t, s, a: t["P"][s, a]), r"dynamics must return \(embeddings, rewards\)"),
        (
            lambda t: tabular(t, 5, lambda t, s, a: (t["P"][s, a], np.zeros((2, 2)))),
            r"dynamics: rewards must have shape \(4,\), got \(2, 2\)",
        ),
        (lambda t: tabular(t, 6), r"prediction: logits must have shape \(4, 6\), got \(4, 5\)"),
    ],
)
def test_wrong_shapes_are_named(reference, make, message):
    with pytest.raises(rl.EvaluatorError, match=message):
        rl.MuZero(make(tables(reference, "muzero_p1_32")), 8, PLAIN)(np.arange(4))


def test_bad_arguments_are_named(reference):
    t = tables(reference, "muzero_p1_32")
    search = rl.MuZero(tabular(t, 5), 8)
    for call, message in (
        (lambda: rl.MuZero(tabular(t, 5), 0), "simulations must be an integer >= 1, got 0"),
        (lambda: rl.MuZero(tabular(t, 5), 8, "uct"), "policy must be Gumbel"),
        (
            lambda: search(np.arange(4), np.zeros((4, 5), bool)),
            "each root needs a legal action, got none at observation 0",
        ),
        (lambda: search(np.arange(4), np.ones((4, 4), bool)), r"legal must be a bool array of shape \(4, 5\)"),
        (lambda: search(np.array(3)), "observations must be"),
        (lambda: rl.MuZeroPUCT(c_init=-1), "c_init must be"),
        (lambda: rl.MuZeroPUCT(dirichlet=(0.0, 0.5)), "dirichlet must be"),
        (lambda: tabular(t, 0), "num_actions must be"),
    ):
        with pytest.raises(rl.SearchError, match=message):
            call()
