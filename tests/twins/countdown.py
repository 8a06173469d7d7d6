"""A game whose rules are Python's."""

from triskele.reinforce.adapters.python_game import PythonGame


class Countdown(PythonGame):
    """Take one or two of five; rules are Python's."""

    name, num_players, num_actions, max_length, observation_shape = "Countdown", 2, 2, 5, (1,)

    def start(self, seed):
        return [5, 0]

    def copy(self, position):
        return list(position)

    def step(self, position, action):
        position[0] -= action + 1
        position[1] = 1 - position[1]

    def player(self, position):
        return position[1]

    def legal_actions(self, position):
        return [0, 1] if position[0] > 1 else [0]

    def terminal(self, position):
        return position[0] == 0

    def returns(self, position):
        return [1.0, -1.0] if position[1] else [-1.0, 1.0]

    def observe(self, position, player):
        return [position[0]]
