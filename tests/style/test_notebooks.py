"""What notebooks show: well-formed HTML and SVG that says what it should and escapes what users wrote."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from triskele import core, quantum, sponge
from triskele import reinforce as rl
from triskele.core.extend import html_facts, html_table
from triskele.quantum.algorithms.vqe import VQEResult
from triskele.quantum.errors import CircuitError
from triskele.quantum.noise.channel import Channel

SVG = "{http://www.w3.org/2000/svg}"
NASTY = "<b>&\"'</td>"


def vqe(message="gradient below tolerance"):
    return VQEResult(-1.5, np.zeros(1), np.array([-1.0, -1.5]), 7, True, message, quantum.Circuit(1))


def search(positions):
    return rl.MCTS(rl.games.TicTacToe(), simulations=30)(positions)


START = rl.games.TicTacToe().initial_state()
SHOWN = {  # what makes it, and texts that it must show
    "circuit": (lambda: quantum.Circuit(2).h(0).crz("angle", 0, 1).measure(0, 0), ["H", "RZ", "angle", "q0", "c (1)"]),
    "position": (lambda: START.play(4, 0, 1), ["TicTacToe after 3 moves: player 1 to move", "a", "3", "x", "o"]),
    "end of a game": (lambda: START.play(4, 0, 1, 7, 3, 5, 2, 6, 8), ["TicTacToe after 9 moves: over, returns 0, 0"]),
    "position without a board": (lambda: rl.games.Pig().initial_state().play(0), ["Pig after 1 move: chance to move"]),
    "search": (lambda: search(START), ["move", "b2", "visits", "prior"]),
    "search of a batch": (lambda: search([START, START.play(4)]), ["Search of 2 positions of TicTacToe", "proven"]),
    "match": (lambda: rl.play_match(rl.games.TicTacToe(), {NASTY: rl.Random(), "b": rl.Random()}, 10), [NASTY, "wins"]),
    "evaluation": (lambda: rl.Evaluation(np.array([1.0, 3.0]), np.array([10, 20])), ["2 ± 1 (standard deviation)"]),
    "system": (
        lambda: sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds"),
        ["22", "3 (1 ACE, 1 ALA, 1 NME)", "12", "not periodic", "torsion", "periodic_torsion", "52"],
    ),
    "history": (lambda: core.train.History([{"epoch": 1, "loss": 1.0}, {"epoch": 2, "loss": 0.6}]), ["epoch", "0.6"]),
    "VQE": (lambda: vqe(NASTY), [NASTY, "-1.50000000", "7", "yes"]),
}


def texts(html):
    """All texts of a fragment, which must be well-formed."""
    return [text.strip() for text in ET.fromstring(f"<div>{html}</div>").itertext() if text.strip()]


@pytest.mark.parametrize("name", SHOWN)
def test_html_is_well_formed_and_says_what_it_should(name):
    make, expected = SHOWN[name]
    html = make()._repr_html_()
    assert not (missing := [t for t in expected if t not in texts(html)]), (missing, texts(html))
    assert len(html) < 20_000
    assert not re.search(r"(?<!-)color:(?!inherit)|background|<script|<style", html), "colors are those of the page"


def test_tables_align_numbers_and_leave_out_the_middle():
    html = html_table("many", {"k": range(1000), "x": [np.nan, *[0.5] * 999], "ok": [True] * 1000}, most=4)
    assert texts(html) == [
        "many",
        "k",
        "x",
        "ok",
        "0",
        "–",
        "yes",
        "1",
        "0.5",
        "yes",
        "…",
        "…",
        "…",
        "998",
        "0.5",
        "yes",
        "999",
        "0.5",
        "yes",
    ]
    assert texts(html_table("", {"name": []})) == ["name"]
    assert texts(html_facts(NASTY, {NASTY: 12345.678}, note=NASTY)) == [NASTY, NASTY, "1.235e+04", NASTY]


def elements(circuit, tag):
    return ET.fromstring(circuit._repr_svg_()).findall(f"{SVG}{tag}")


def test_svg_of_a_circuit_has_its_gates_wires_and_marks():
    circuit = quantum.Circuit(3).h(0).cx(0, 2).barrier().depolarizing(0.01, 1).measure(0, 0)
    assert [t.text for t in elements(circuit, "text")] == ["q0", "q1", "q2", "c (1)", "H", "depolarizing", "0.01", "0"]
    y = {t.text: float(t.get("y")) for t in elements(circuit, "text")}
    assert y["q0"] < y["q1"] < y["q2"] < y["c (1)"]  # qubit 0 on top
    assert y["H"] == y["q0"]
    boxes = [b for b in elements(circuit, "rect") if b.get("stroke")]
    assert len(boxes) == 3  # H, the channel and the measurement
    marks = {c.get("r"): (float(c.get("cx")), float(c.get("cy"))) for c in elements(circuit, "circle")}
    assert marks["4.0"] == (marks["8.0"][0], y["q0"])  # the control
    assert marks["8.0"][1] == y["q2"]  # the target
    wires = {float(w.get("y1")) for w in elements(circuit, "line") if w.get("y1") == w.get("y2")}
    assert {y["q0"], y["q1"], y["q2"]} <= wires


def test_svg_escapes_names_and_needs_no_page():
    circuit = quantum.Circuit(1).append(Channel.pauli(NASTY, [0.9, 0.1, 0, 0]), [0])
    assert NASTY in [t.text for t in elements(circuit, "text")]
    root = ET.fromstring(circuit._repr_svg_())
    assert root.get("color") and root[0].get("fill") == "white"  # readable as a file
    assert ET.fromstring(circuit._repr_html_())[0].get("color") is None  # in a notebook, that of the page


def test_svg_is_as_wide_as_its_rows_and_boxes_hold_their_text():
    circuit = quantum.hardware_efficient(4, 8)
    root = ET.fromstring(circuit.draw("svg", fold=10))
    assert float(root.get("width")) < 40 * 14
    assert len([t for t in root.iter(f"{SVG}text") if t.text == "q0"]) > 3
    boxes = [b for b in root.iter(f"{SVG}rect") if b.get("stroke")]
    assert all(float(b.get("width")) >= 0.72 * 40 for b in boxes)
    with pytest.raises(CircuitError, match="fold must be positive"):
        circuit.draw("svg", fold=0)
    assert quantum.qft(20)._repr_html_() is not None
    assert quantum.qft(150)._repr_html_() is None  # too much to draw


def test_a_board_has_the_stones_of_the_position():
    game = rl.games.ConnectFour()
    state = game.initial_state().play(3, 3, 4)
    board = ET.fromstring(state._repr_html_())
    stones = sorted((float(c.get("cy")), float(c.get("cx")), c.get("fill")) for c in board.iter(f"{SVG}circle"))
    assert [fill for *_, fill in stones] == [core.plots.COLORS[k] for k in (1, 0, 0)]
    assert stones[0][1] == stones[1][1] < stones[2][1]
    assert len(list(board.iter(f"{SVG}rect"))) == 42
    assert not list(ET.fromstring(rl.games.Nim().initial_state()._repr_html_()).iter(f"{SVG}svg"))
