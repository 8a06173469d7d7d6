"""Files from strangers: a policy or a checkpoint names only what this suite or the caller has listed, and runs no
code.
"""

import dataclasses
import json
import sys
from typing import Any

import numpy as np
import pytest

from triskele import core
from triskele import reinforce as rl
from triskele.core import nn, random
from triskele.core.disk import archive
from triskele.reinforce import storage
from triskele.reinforce.errors import CheckpointError
from triskele.reinforce.policy import Categorical, Policy


def packed_file(path, kind, value, arrays):
    """A file with a valid checksum, of a packed value: what somebody with bad intentions writes."""
    text = json.dumps({"kind": kind, "version": 2, "value": value}).encode()
    core.save(path, {"text": np.frombuffer(text, np.uint8), "arrays": arrays})


def linear(weight, bias=None):
    return {
        "class": "triskele.core.nn.layers:Linear",
        "fields": {"weight": {"array": weight}, "bias": bias and {"array": bias}},
    }


def policy_with(activation, head="triskele.reinforce.policy:Categorical", **more):
    layers = {"tuple": [linear("0", "1"), linear("2")]}
    network = {"class": "triskele.core.nn.layers:MLP", "fields": {"layers": layers, "activation": activation}}
    return {
        "class": "triskele.reinforce.policy:Policy",
        "fields": {
            "head": {"class": head, "fields": {"network": network}},
            "observation_shape": {"tuple": [4]},
            "normalizer": None,
            "num_actions": 2,
            **more,
        },
    }


def write_policy(path, value, code=b""):
    """Weights of 0 and a bias whose bytes are `code`: what the activation is called with."""
    bias = np.frombuffer(code + b"." * (-len(code) % 4) + b"....", np.float32)
    packed_file(
        path,
        "policy",
        value,
        {"0": np.zeros((4, len(bias)), np.float32), "1": bias.copy(), "2": np.zeros((len(bias), 2), np.float32)},
    )


NAMES = [
    "pickle:loads", "os:system", "os:abort", "builtins:eval", "builtins:exec", "builtins:__import__", "subprocess:run",
    "importlib:import_module", "numpy:load", "numpy:fromfile", "numpy:frompyfunc", "numpy:save", "numpy:vectorize",
    "numpy:lib.format.read_array", "numpy:f2py.compile", "numpy.lib.format:read_array", "numpy:tanh.__class__",
    "numpy:tanh.__call__", "scipy.special:seterr", "math:tanh", "triskele.core.nn.functional:np.load",
    "triskele.core.nn.functional:special.expit", "triskele.core.nn.functional:relu.__globals__",
    "triskele.core.nn.functional:__builtins__", "triskele.core.nn.functional:np", "triskele.core.nn.layers:Conv1d",
    "triskele.core:load", "triskele.core.disk.save:load", "triskele.reinforce.storage:read",
    "triskele.reinforce.storage:importlib.import_module", "triskele.reinforce:load_policy",
    "triskele.reinforce.vector.env:make", "triskele.reinforce.vector.env:_copied", "antigravity:geohash", "this:s",
    "relu", ":relu", "triskele.core.nn.functional:", "", "numpy:", "numpy", "..:x",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_names_no_other_function(tmp_path, name):
    path, loaded = tmp_path / "policy", set(sys.modules)
    write_policy(path, policy_with({"function": name}), b"cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(CheckpointError, match="none of the classes and functions that a file may name"):
        rl.Policy.load(path)
    assert not {"antigravity", "this"} & (set(sys.modules) - loaded)


@pytest.mark.parametrize(
    "name",
    [
        "os:PathLike",
        "subprocess:Popen",
        "pathlib:Path",
        "types:SimpleNamespace",
        "ctypes:Structure",
        "dataclasses:Field",
        "numpy:memmap",
        "numpy:vectorize",
        "numpy:ndarray",
        "inspect:Parameter",
        "multiprocessing.shared_memory:SharedMemory",
        "concurrent.futures.process:_CallItem",
        "gymnasium.envs.registration:EnvSpec",
        "gymnasium.envs.registration:WrapperSpec",
        "triskele.reinforce.training.report:CSV",
        "triskele.reinforce.agents.ppo:PPO",
        "triskele.reinforce.policy:storage.core.Spec",
        "triskele.reinforce.policy:Policy.save",
        "triskele.reinforce.matches.players:Human",
        "triskele.core.optim.adam:Adam",
        "triskele.core.nn.functional:relu",
    ],
)
def test_a_policy_names_no_other_class(tmp_path, name):
    path = tmp_path / "policy"
    for value in (
        {"class": name, "fields": {}},
        policy_with({"class": name, "fields": {}}),
        policy_with({"function": "numpy:tanh"}, head=name),
    ):
        write_policy(path, value)
        with pytest.raises(CheckpointError):
            rl.Policy.load(path)


def test_a_ufunc_of_the_user_s_is_none_of_numpy_s(tmp_path):
    """`numpy.frompyfunc` makes ufuncs that call anything; only the modules' own names count."""
    write_policy(tmp_path / "policy", policy_with({"function": f"{__name__}:evil"}))
    with pytest.raises(CheckpointError, match="may name"):
        rl.Policy.load(tmp_path / "policy")


@pytest.mark.parametrize(
    "value",
    [
        3,
        None,
        "text",
        [],
        {},
        {"list": []},
        {"dict": {}},
        linear("0"),
        {"function": "numpy:tanh"},
        {"array": "0"},
        {"function": ["numpy:tanh"]},
        {"function": None},
        {"class": "triskele.reinforce.policy:Policy", "fields": {}},
        {"class": "triskele.reinforce.policy:Policy"},
        {"nothing": 1},
        policy_with(None),
        policy_with(linear("3")),
        policy_with("tanh"),
        policy_with({"function": "numpy:add"}),
        policy_with({"function": "numpy:isnat"}),
        policy_with({"function": "numpy:tanh"}, observation_shape={"tuple": [5]}),
        policy_with({"function": "numpy:tanh"}, observation_shape=4),
        policy_with({"function": "numpy:tanh"}, observation_shape={"tuple": [2**40, 4]}),
        policy_with({"function": "numpy:tanh"}, observation_shape={"tuple": [-4]}),
        policy_with({"function": "numpy:tanh"}, normalizer=linear("3")),
        policy_with({"function": "numpy:tanh"}, num_actions=2**60),
        policy_with({"function": "numpy:tanh"}, num_actions=7),
        policy_with({"function": "numpy:tanh"}, num_actions="2"),
        policy_with({"function": "numpy:tanh"}, head="triskele.core.nn.layers:Linear"),
        policy_with({"function": "numpy:tanh"}, unknown=3),
        policy_with({"number": 3, "dtype": "O"}),
        policy_with({"number": "x", "dtype": "<f8"}),
        policy_with({"records": "0", "dtype": "'|O'", "shape": [1]}),
        policy_with({"records": "0", "dtype": "__import__('os').abort()", "shape": [1]}),
        policy_with({"array": "0"}),
        policy_with({"class": "triskele.core.nn.layers:MLP", "fields": {"layers": {"tuple": []}, "activation": None}}),
    ],
    ids=range(36),
)
def test_what_is_no_policy_is_refused(tmp_path, value):
    write_policy(tmp_path / "policy", value)
    with pytest.raises(CheckpointError, match="policy'"):
        rl.Policy.load(tmp_path / "policy")


def test_nesting_without_end_is_refused(tmp_path):
    text = '{"kind":"policy","version":2,"value":' + '{"list":[' * 50_000 + "]}" * 50_000 + "}"
    core.save(tmp_path / "policy", {"text": np.frombuffer(text.encode(), np.uint8), "arrays": {}})
    with pytest.raises(CheckpointError, match="policy'"):
        rl.Policy.load(tmp_path / "policy")


@pytest.mark.parametrize("name", ["numpy:tanh", "scipy.special:expit", "triskele.core.nn.functional:silu"])
def test_activations_of_the_suite_and_ufuncs_are_taken(tmp_path, name):
    write_policy(tmp_path / "policy", policy_with({"function": name}))
    assert rl.Policy.load(tmp_path / "policy")(np.zeros(4)) == 0


@dataclasses.dataclass(frozen=True)
class Own:
    """A network of somebody's own."""

    weight: Any
    activation: Any = nn.static(default=None)

    def __call__(self, x):
        return self.activation(x @ self.weight)


evil = np.frompyfunc(print, 1, 1)


def bent(x):
    return x * np.tanh(x)


def test_own_networks_and_functions_are_given_by_the_caller(tmp_path):
    path, weight = tmp_path / "policy", np.arange(8, dtype=np.float32).reshape(4, 2)
    policy = Policy(Categorical(Own(weight, bent)), (4,), None, 2)
    policy.save(path)
    for known in ((), (Own,), (bent,)):
        with pytest.raises(CheckpointError, match=r"if it is yours, and you trust the file: known=\["):
            rl.Policy.load(path, known=known)
    loaded = rl.Policy.load(path, known=[Own, bent])
    assert loaded.head.network.activation is bent
    np.testing.assert_array_equal(loaded(np.eye(4)), policy(np.eye(4)))


def test_a_file_of_version_1_is_read(tmp_path):
    arrays: dict[str, np.ndarray] = {}
    value = storage.pack(Policy(Categorical(nn.Linear.init(random.key(0), 3, 2)), (3,), None, 2), arrays)
    archive.write(tmp_path / "policy", "policy", 1, value, arrays)
    assert rl.Policy.load(tmp_path / "policy")(np.ones(3)) in (0, 1)
    archive.write(tmp_path / "policy", "policy", 3, value, arrays)
    with pytest.raises(CheckpointError, match="policy '.*policy': version must be 1 or 2, got 3"):
        rl.Policy.load(tmp_path / "policy")


SETTINGS = {"num_envs": 2, "num_steps": 16, "minibatches": 2, "epochs": 1, "hidden": (8,), "seed": 5}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Content of a checkpoint of PPO, as packed values and arrays."""
    path = tmp_path_factory.mktemp("trained") / "run.chk"
    rl.PPO("CartPole-v1", **SETTINGS).train(64, checkpoint=path, progress=False)
    found = core.load(path)
    return json.loads(found["text"].tobytes())["value"], found["arrays"]


def changed(trained, place, new):
    value = json.loads(json.dumps(trained[0]))
    at = value["dict"]
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = new
    return value


def test_a_checkpoint_as_it_was_is_resumed(trained, tmp_path):
    packed_file(tmp_path / "run.chk", "checkpoint", *trained)
    assert rl.PPO.load(tmp_path / "run.chk").steps == 64


@pytest.mark.parametrize(
    "env",
    [
        {"function": "os:abort"},
        {"function": "numpy:tanh"},
        "antigravity:Env-v0",
        "this:CartPole-v1",
        3,
        {"list": []},
        "",
        "NoSuch-v0",
        {"class": "gymnasium.envs.registration:EnvSpec", "fields": {"id": "x-v0", "entry_point": "os:abort"}},
    ],
)
def test_a_checkpoint_chooses_no_other_environment(trained, tmp_path, env):
    packed_file(tmp_path / "run.chk", "checkpoint", changed(trained, ["env"], env), trained[1])
    with pytest.raises(rl.errors.ReinforceError):
        rl.PPO.load(tmp_path / "run.chk")
    assert "antigravity" not in sys.modules and "this" not in sys.modules


@pytest.mark.parametrize(
    "place, new",
    [
        (["settings", "dict", "activation"], {"function": "os:system"}),
        (["settings", "dict", "seed"], {"function": "numpy:tanh"}),
        (["settings", "dict", "num_envs"], 2**50),
        (["settings", "dict", "hidden"], {"tuple": [2**50]}),
        (["settings", "dict", "unknown"], 1),
        (["settings"], 3),
        (["counters"], {"list": [1, 2]}),
        (["counters", "list", 0], -1),
        (["episodes"], None),
        (["episodes", "fields", "finished"], "x"),
        (["episodes", "fields", "totals"], {"list": []}),
        (["state"], {"dict": {}}),
        (["state", "dict", "weights"], {"tuple": []}),
        (["state", "dict", "iteration"], "x"),
        (["environment", "dict", "data"], 3),
        (["environment"], {"dict": {}}),
        (["spaces"], 3),
        (["agent"], "DQN"),
        (["agent"], 3),
        (["state", "dict", "_rollout.position"], {"dict": {}}),
    ],
)
def test_what_is_no_checkpoint_is_refused(trained, tmp_path, place, new):
    packed_file(tmp_path / "run.chk", "checkpoint", changed(trained, place, new), dict(trained[1]))
    with pytest.raises(rl.errors.ReinforceError):
        rl.PPO.load(tmp_path / "run.chk")


def test_weights_of_other_shapes_are_refused(trained, tmp_path):
    for name, array in trained[1].items():
        for other in (np.zeros((*array.shape, 2), array.dtype), np.zeros(array.shape, np.complex64)):
            packed_file(tmp_path / "run.chk", "checkpoint", trained[0], {**trained[1], name: other})
            with pytest.raises(rl.errors.ReinforceError):
                rl.PPO.load(tmp_path / "run.chk")


def searched(game, seed, moves=2, **options):
    search = rl.MCTS(game, 60, seed=seed, **options)
    state, rng = game.initial_state(), np.random.default_rng(seed)
    for _ in range(moves):
        result = search(state)
        action = result.action if state.player >= 0 else int(rng.choice(state.legal_actions))
        state = state.play(action)
        search.advance(action)  # what is kept of a tree moves in memory
    return search(state).tree


@pytest.mark.parametrize("game", [rl.games.TicTacToe(), rl.games.ConnectFour()], ids=lambda g: g.name)
def test_every_tree_that_is_saved_is_loaded(tmp_path, game):
    for seed in range(4):
        for options in ({}, {"solver": True}):
            tree = searched(game, seed, **options)
            tree.save(tmp_path / "tree")
            assert rl.SearchTree.load(tmp_path / "tree", game).draw(9, 9) == tree.draw(9, 9)


@pytest.mark.parametrize(
    "name, place, field, new",
    [
        ("parents", 3, "parent", -1),
        ("parents", 3, "parent", -5),
        ("parents", 3, "parent", 3),
        ("parents", 3, "parent", 2**30),
        ("parents", 0, "parent", 0),
        ("parents", 3, "edge", -1),
        ("parents", 3, "edge", 2**30),
        ("links", 0, "first_edge", 2**30),
        ("links", 0, "first_edge", -7),
        ("links", 0, "num_edges", -3),
        ("links", 0, "num_edges", 32767),
        ("links", 0, "player", 9),
        ("children", 0, None, 2**30),
        ("children", 0, None, -5),
        ("children", 0, None, 0),
        ("actions", 0, None, 99),
        ("counts", 0, None, 2**40),
        ("counts", 1, None, -1),
        ("counts", 0, None, 0),
        ("moves", 0, None, -1),
        ("stats", 0, "visits", -4),
        ("key", None, None, "x"),
    ],
)
def test_a_tree_whose_links_lead_astray_is_refused(tmp_path, name, place, field, new):
    """A parent of -5 made `Node.moves` run for ever."""
    game = rl.games.TicTacToe()
    searched(game, 1).save(tmp_path / "tree")
    data = storage.read(tmp_path / "tree", "search tree")
    if place is None:
        data[name] = new
    else:
        (data[name] if field is None else data[name][field])[place] = new
    storage.write(tmp_path / "tree", "search tree", data)
    with pytest.raises(rl.SearchError, match="SearchTree.load: .*tree'"):
        rl.SearchTree.load(tmp_path / "tree", game)


def test_a_tree_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    tree = searched(rl.games.TicTacToe(), 1)
    tree.save(tmp_path / "tree")
    before = (tmp_path / "tree").read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left on device .*tree'"):
        tree.save(tmp_path / "tree")
    assert (tmp_path / "tree").read_bytes() == before and len(list(tmp_path.iterdir())) == 1
