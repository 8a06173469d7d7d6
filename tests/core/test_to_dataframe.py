"""Records of all packages as pandas tables."""

import numpy as np

from triskele import quantum
from triskele import reinforce as rl
from triskele.core import train


def test_search_and_match():
    game = rl.games.TicTacToe()
    search = rl.MCTS(game, 50)
    result = search(game.initial_state())
    table = result.to_dataframe()
    assert table.index.name == "action"
    np.testing.assert_array_equal(table["visits"], result.visits)
    assert table["policy"].idxmax() == result.action
    batch = search([game.initial_state(), game.initial_state().play(4)]).to_dataframe()
    assert batch.groupby("position")["policy"].sum().round(9).tolist() == [1, 1]
    match = rl.play_match(game, {"search": search, "random": rl.Random()}, games=4, progress=False)
    scores = match.to_dataframe()
    assert list(scores.index) == ["search", "random"]
    assert scores[["wins", "draws", "losses"]].sum(axis=1).tolist() == [4, 4]


def test_histories():
    ansatz = quantum.Circuit(1).ry("a", 0)
    result = quantum.VQE(quantum.PauliSum("Z0"), ansatz, initial=[0.3]).run(progress=False)
    table = result.to_dataframe()
    assert table.index.name == "step"
    np.testing.assert_array_equal(table["energy"], result.history)
    epochs = train.History([{"epoch": 1, "loss": 3.0}, {"epoch": 2, "loss": 2.5}]).to_dataframe()
    assert epochs.index.tolist() == [1, 2]
    assert epochs["loss"].tolist() == [3.0, 2.5]
