"""Rules of a game on arrays of states: templates of the kernels of `Game.kernels`."""

from triskele.core.extend import device, template

__all__ = ["initial", "look", "observe", "play", "returns", "no_chance"]


@template
def initial(rules, states):
    """Make first positions."""
    for k in range(len(states)):
        rules.initial(states[k])


@template
def look(rules, states, players, over, masks, probabilities):
    """Write who is to move, what is over, and what can be played or can happen."""
    for k in range(len(states)):
        players[k] = 0
        over[k] = rules.terminal(states[k])
        if not over[k]:
            players[k] = rules.player(states[k])
            if players[k] >= 0:
                rules.legal_actions(states[k], masks[k])
            else:
                rules.chance(states[k], probabilities[k])


@template
def play(rules, states, actions):
    """Play an action in each state."""
    for k in range(len(states)):
        rules.step(states[k], actions[k])


@template
def observe(rules, states, players, out):
    """Write what a player sees of each state."""
    for k in range(len(states)):
        rules.observe(states[k], players[k], out[k])


@template
def returns(rules, states, out):
    """Write what the players have got in each state."""
    for k in range(len(states)):
        rules.returns(states[k], out[k])


@device
def no_chance(state, probabilities):
    """The rule `chance` of games without."""
