"""Every game of the package keeps the contract of games."""

import pytest

from triskele import reinforce as rl

WITH_ARGUMENTS = {
    "MatrixGame": lambda: rl.games.MatrixGame([[[3, 0], [5, 1]], [[3, 5], [0, 1]]]),
    "Go": lambda: rl.games.Go(5),
}


@pytest.mark.parametrize("name", dir(rl.games))
def test_check_game(name):
    rl.check_game(WITH_ARGUMENTS.get(name, getattr(rl.games, name))(), games=5)
