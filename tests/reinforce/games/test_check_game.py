"""`check_game` passes what is right, and tells which rule is wrong and where."""

import numpy as np
import pytest

from tests.twins.countdown import Countdown
from triskele import reinforce as rl
from triskele.core.kernels.njit import device
from triskele.reinforce.game import CHANCE
from triskele.reinforce.random import below


class Matches(rl.Game):
    """Seven matches, one or two are taken; who takes the last one wins.

    Before player 1 moves, a coin may take one more.
    """

    num_players, num_actions, num_outcomes, max_length, observation_shape = 2, 2, 2, 12, (2,)
    state = [("left", "i8"), ("player", "i8"), ("coin", "i8"), ("taken", "i8", 2)]

    @staticmethod
    def initial(state):
        state.left = 7

    @staticmethod
    def player(state):
        return CHANCE if state.coin else state.player

    @staticmethod
    def legal_actions(state, mask):
        mask[0], mask[1] = True, state.left > 1

    @staticmethod
    def step(state, action):
        if state.coin:
            state.coin = 0
            if state.left > 1:
                state.left -= action
        else:
            state.left -= action + 1
            state.taken[state.player] += action + 1
            state.player = 1 - state.player
            state.coin = state.player

    @staticmethod
    def terminal(state):
        return state.left == 0

    @staticmethod
    def returns(state, out):
        out[1 - state.player], out[state.player] = 1.0, -1.0

    @staticmethod
    def observe(state, player, out):
        out[0], out[1] = state.left, player == state.player

    @staticmethod
    def chance(state, probabilities):
        probabilities[0], probabilities[1] = 0.25, 0.75

    @staticmethod
    def random_action(state, stream):
        return below(stream, min(state.left, 2))

    def draw(self, state):
        return "|" * int(state.data[0]["left"])


@device
def put(array, k, value):  # a user's helper: bounds are not checked in it
    array[k] = value


def broken(**changes):
    """Matches with other rules or attributes."""
    return type(
        "Matches",
        (Matches,),
        {
            k: staticmethod(v) if callable(v) and k not in ("draw", "action_name", "parse_action") else v
            for k, v in changes.items()
        },
    )()


# -------------------------------------------------------------------------------------------------- what is wrong with
# a game
def forgets_its_mask(state, mask):
    mask[0] = True


def allows_nothing(state, mask):
    mask[:] = state.left > 3


def writes_beyond_the_mask(state, mask):
    mask[0], mask[1] = True, state.left > 1
    mask[2] = False


def writes_beyond_the_mask_in_a_helper(state, mask):
    mask[0], mask[1] = True, state.left > 1
    put(mask, 2, False)


def changes_the_state(state, mask):
    mask[0], mask[1] = True, state.left > 1
    state.left += 0 if state.left == 7 else 1


def writes_beyond_the_state(state, action):
    state.left -= action + 1
    put(state.taken, 2 + state.player, action)
    state.player = 1 - state.player


def never_ends(state):
    return False


def has_three_players(state):
    return CHANCE if state.coin else 2 * state.player


def returns_nothing(state):
    state.player  # noqa: B018


def returns_a_float(state):
    return CHANCE if state.coin else 0.5 * state.player


def returns_infinity(state, out):
    out[:] = 1 / state.left


def pays_only_the_winner(state, out):
    out[1 - state.player] = 1.0


def adds_to_what_was_there(state, out):
    out[1 - state.player] += 1.0
    out[state.player] = -1.0


def sees_nan(state, player, out):
    out[0], out[1] = state.left, np.log(state.left - 6)


def has_the_wrong_shape(state, player, out):
    out[0, 0] = state.left


def sums_to_less(state, probabilities):
    probabilities[0], probabilities[1] = 0.25, 0.7


def prefers_one(state, stream):
    return below(stream, 4 * min(state.left, 2)) % min(state.left, 3) % 2


def is_often_illegal(state, stream):
    return below(stream, 2)


def cannot_be_compiled(state, action):
    state.left = "all"


def divides_by_a_word(state, mask):
    mask[0], mask[1] = True, undefined_word > 1  # noqa: F821


def raises(state, action):
    if state.left < 4:
        raise ValueError("not so few")
    state.left -= action + 1


def remembers(state, action):
    state.left -= action + 1
    state.taken[0] = np.random.randint(1_000_000)  # noqa: NPY002
    state.player = 1 - state.player


BROKEN = {
    "legal_actions": [
        (forgets_its_mask, r"legal_actions must write every element of mask, .* does not write \[1\], after \(\)"),
        (allows_nothing, r"legal_actions allows nothing, though the game is not over, after \(\d"),
        (writes_beyond_the_mask, r"legal_actions raised IndexError: .*, after \(\)"),
        (
            writes_beyond_the_mask_in_a_helper,
            r"legal_actions writes outside of mask, which has the shape \(2,\), after \(\)",
        ),
        (changes_the_state, "legal_actions changes the state, which only initial and step may do, after"),
        (divides_by_a_word, "legal_actions cannot be compiled: .*undefined_word"),
    ],
    "player": [
        (has_three_players, r"player must be 0 to 1, or CHANCE, got 2, after \(\d"),
        (returns_nothing, r"player must return an integer, got None of type NoneType, after \(\)"),
        (returns_a_float, r"player must return an integer, got 0.0 of type float, after \(\)"),
    ],
    "terminal": [
        (returns_nothing, "terminal must return True or False, got None"),
    ],
    "step": [
        (writes_beyond_the_state, r"step of [01] writes outside of the state, after \("),
        (cannot_be_compiled, "step cannot be compiled"),
        (raises, r"step of [01] raised ValueError: not so few, after \(\d"),
        (remembers, r"step must give the same position for the same moves, got two that differ in taken, after \(\d"),
    ],
    "returns": [
        (returns_infinity, r"returns must give finite numbers, got inf at \[0\], after \(\d"),
        (pays_only_the_winner, r"returns must write every element of out, .* does not write \[[01]\], after \(\d"),
        (adds_to_what_was_there, r"returns must write every element of out, whatever was there before"),
    ],
    "observe": [
        (sees_nan, r"observe must give finite numbers, got (nan|-inf) at \[1\], after \(\d"),
        (has_the_wrong_shape, "observe cannot be compiled"),
    ],
    "chance": [
        (
            sums_to_less,
            r"chance must give probabilities that sum to 1, got \[0.25, 0.7\] with the sum 0.95, after \(\d,\)",
        )
    ],
    "random_action": [
        (prefers_one, r"random_action must be uniform, but of 1000 draws \d+ were [01], and \d+ were [01], after \("),
        (is_often_illegal, r"random_action drew 1, which is not legal \(legal: \[0\]\), after \(\d"),
    ],
}


def test_a_right_game_passes():
    rl.check_game(Matches())


@pytest.mark.parametrize(
    ("rule", "function", "message"), [(rule, *case) for rule, cases in BROKEN.items() for case in cases]
)
def test_broken_rules(rule, function, message):
    with pytest.raises(rl.GameError, match=f"^Matches: ({message})"):
        rl.check_game(broken(**{rule: function}), games=10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_players": 0}, "num_players must be an integer >= 1, got 0"),
        ({"max_length": None}, "max_length must be an integer >= 1, got None"),
        ({"observation_shape": [2]}, r"observation_shape must be a tuple of positive integers, got \[2\]"),
        ({"observation_shape": ()}, "observation_shape must be a tuple of positive integers"),
        ({"num_outcomes": 0}, "num_outcomes must be positive where there is a rule chance, and else 0, got 0"),
        ({"chance": None}, "num_outcomes must be positive where there is a rule chance, and else 0, got 2"),
        ({"step": lambda state: None}, r"step must have the arguments \(state, action\), got \(state\)"),
        ({"state": "left"}, "state must be a list of fields"),
        ({"terminal": never_ends, "random_action": None}, "terminal must be True after at most max_length = 12 moves"),
        ({"max_length": 3}, "terminal must be True after at most max_length = 3 moves"),
        ({"draw": lambda self, state: "\x1b[31mred"}, "draw must give text without control sequences"),
        (
            {"action_name": lambda self, state, action: "take"},
            "action_name must give different actions different names",
        ),
        ({"parse_action": lambda self, state, text: 1 - int(text)}, "parse_action must read '.' as action"),
    ],
)
def test_broken_descriptions(changes, message):
    with pytest.raises(rl.GameError, match=f"^Matches: {message}"):
        rl.check_game(broken(**changes), games=3)


def test_a_method_that_is_not_static():
    class Other(Matches):
        def terminal(self, state):
            return state.left == 0

    with pytest.raises(rl.GameError, match=r"Other: terminal must be .* got a method \(put @staticmethod before it\)"):
        rl.check_game(Other())


def test_what_is_no_game():
    with pytest.raises(rl.GameError, match=r"must be a Game, got .*Matches.* \(an object of it, not the class\)"):
        rl.check_game(Matches)
    with pytest.raises(rl.GameError, match="game must be a Game, got 3"):
        rl.check_game(3)


def test_a_right_game_of_python_passes():
    rl.check_game(Countdown())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"legal_actions": lambda self, position: []}, r"there must be legal actions, in range, got \[\], after \(\)"),
        (
            {"legal_actions": lambda self, position: [2]},
            r"there must be legal actions, in range, got \[2\], after \(\)",
        ),
        ({"player": lambda self, position: 2}, r"the player must be 0 to 1, or CHANCE, got 2, after \(\)"),
        (
            {"observe": lambda self, position, player: [position[0] / 0]},
            r"raised ZeroDivisionError: division by zero, after \(\)",
        ),
        ({"observe": lambda self, position, player: [np.inf]}, "an observation must be finite"),
        (
            {"returns": lambda self, position: [np.nan, 0.0]},
            r"returns must be 2 finite numbers, got \[nan  0.\], after \(\d",
        ),
        ({"max_length": 2}, r"the game must be over after at most max_length = 2 moves, after \(\d, \d\)"),
        ({"copy": lambda self, position: position}, r"playing \d must leave the position as it was, after \(\)"),
    ],
)
def test_broken_games_of_python(changes, message):
    with pytest.raises(rl.GameError, match=f"Countdown: {message}"):
        rl.check_game(type("Countdown", (Countdown,), changes)())
