"""Memory of searches and buffers: random sizes at every limit, and no growth from search to search."""

import gc
import resource
from pathlib import Path

import numpy as np
import pytest

from triskele import reinforce as rl
from triskele.reinforce.agents.self_play import PositionBuffer
from triskele.reinforce.mcts.tree import EDGES, NODES

TTT, PIG = rl.games.TicTacToe(), rl.games.Pig(10, 3)


def check_tree(tree, solver=False):
    """Links lead from each node to its children and back, and visits add up."""
    a, nodes, edges = tree.arrays, len(tree), int(tree.arrays.counts[EDGES])
    assert 0 < nodes <= len(a.totals) and 0 <= edges <= len(a.children)
    first, count = a.links["first_edge"][:nodes].astype(int), a.links["num_edges"][:nodes].astype(int)
    used = sorted((f, f + c) for f, c in zip(first, count, strict=True) if c)
    assert all(end <= begin for (_, end), (begin, _) in zip(used, used[1:], strict=False)), "no two nodes share an edge"
    assert not used or 0 <= used[0][0] and used[-1][1] <= edges
    below = np.zeros(nodes, int)
    for node in range(1, nodes):
        parent, edge = (int(a.parents[node][k]) for k in ("parent", "edge"))
        assert 0 <= parent < node and first[parent] <= edge < first[parent] + count[parent] and a.children[edge] == node
        below[parent] += a.stats["visits"][node]
    assert solver or (a.stats["visits"][:nodes] >= below).all()  # a solver visits proven children besides others


@pytest.mark.parametrize(
    ("options", "game"),
    [
        ({}, TTT),
        ({"solver": True}, TTT),
        ({"solver": True}, PIG),
        ({"policy": rl.PUCT(), "evaluator": lambda x: (np.zeros((len(x), 9)), np.zeros(len(x)))}, TTT),
    ],
)
def test_trees_at_their_limits(options, game):
    rng = np.random.default_rng(0)
    batched = "evaluator" in options
    for k in range(25):
        more = {"parallel_leaves": int(rng.integers(1, 9))} if batched else {"threads": int(rng.integers(1, 4))}
        roots = int(rng.integers(1, 4))
        room = int(rng.integers(2, 40)) * 1000 * roots * more.get("threads", 1)
        search = rl.MCTS(
            game, int(rng.integers(1, 400)), seed=k, memory=room if rng.random() < 0.6 else None, **more, **options
        )
        states = [game.initial_state() for _ in range(roots)]
        for _ in range(4):
            try:
                result = search(states)
            except rl.SearchError as error:
                assert "memory" in str(error)
                break
            for tree, state in zip(result.tree, states, strict=True):
                check_tree(tree, "solver" in options)
                assert tree.arrays.counts[NODES] == len(tree) and tree.root.state.data.tobytes() == state.data.tobytes()
            actions = [int(rng.choice(s.legal_actions)) for s in states]
            search.advance(actions)
            states = [s.play(a) for s, a in zip(states, actions, strict=True)]
            if any(s.terminal or s.player < 0 for s in states):
                break


def test_a_ring_of_positions_keeps_the_last():
    rng = np.random.default_rng(1)
    size = TTT.dtype.itemsize
    for capacity in (1, 2, 7, 64):
        buffer, values = PositionBuffer(TTT, capacity), []
        for _ in range(60):
            n = int(rng.integers(0, 2 * capacity + 2))
            new = rng.random(n).astype(np.float32)
            values += new.tolist()
            buffer.extend(np.zeros((n, size), np.uint8), np.tile(new[:, None], 9), new)
            kept = values[-capacity:]
            assert len(buffer) == len(kept) and sorted(buffer.values[: len(kept)].tolist()) == sorted(kept)
            assert (buffer.policies[: len(kept)] == buffer.values[: len(kept), None]).all()


def resident():
    """Bytes of memory in use, or None where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return None


@pytest.mark.parametrize("rounds", [200, pytest.param(20_000, marks=pytest.mark.slow)])
def test_searches_do_not_grow(rounds):
    if resident() is None:
        pytest.skip("no /proc")
    state, net = TTT.initial_state(), lambda x: (np.zeros((len(x), 9)), np.zeros(len(x)))

    def play(k):
        for search in (
            rl.MCTS(TTT, 300, seed=k),
            rl.MCTS(TTT, 300, seed=k, solver=True),
            rl.MCTS(TTT, 50, policy=rl.PUCT(), evaluator=net, parallel_leaves=4),
        ):
            search(state)
            search.advance(4)
            search(state.play(4))

    for k in range(50):
        play(k)
    gc.collect()
    before = resident()
    for k in range(rounds):
        play(k)
    gc.collect()
    assert resident() - before < 8 * 2**20
