"""Drawings: text against what it should look like, figures against what a reader needs of them."""

import math
import re
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings

from tests.quantum.strategies import circuits
from tests.twins.statevector import statevector
from triskele import quantum
from triskele.quantum import draw, gates
from triskele.quantum.draw.labels import angle_text
from triskele.quantum.errors import CircuitError
from triskele.quantum.noise.channels import CHANNELS
from triskele.quantum.simulators.result import StatevectorResult

Circuit = quantum.Circuit


def simulated(circuit):
    return StatevectorResult(statevector(circuit))


def assert_drawn(drawing, expected):
    assert drawing == textwrap.dedent(expected).strip("\n")


def test_gates_controls_and_parameters():
    circuit = Circuit(2).h(0).cx(0, 1).rz("a", 1)
    assert_drawn(
        circuit.draw(width=80),
        """
         ┌───┐
    q0: ─┤ H ├─●───────────
         └───┘ │ ┌───────┐
    q1: ───────⊕─┤ RZ(a) ├─
                 └───────┘
    """,
    )


def test_measurements_go_to_the_classical_wire_and_conditions_come_from_it():
    circuit = Circuit(3, 2).h(0).h(1).cx(1, 2).cx(0, 1).h(0).measure([0, 1])
    with circuit.when(1):
        circuit.x(2)
    with circuit.when(0):
        circuit.z(2)
    assert_drawn(
        circuit.draw(width=80),
        """
          ┌───┐     ┌───┐ ┌───┐
     q0: ─┤ H ├───●─┤ H ├─┤ M ├───────────────────
          ├───┤   │ └───┘ └─╥─┘ ┌───┐
     q1: ─┤ H ├─●─⊕─────────╫───┤ M ├─────────────
          └───┘ │           ║   └─╥─┘ ┌───┐ ┌───┐
     q2: ───────⊕───────────╫─────╫───┤ X ├─┤ Z ├─
                            ║     ║   └─╥─┘ └─╥─┘
    c: 2/═══════════════════╩═════╩═════╩═════╩═══
                            0     1   c1=1  c0=1
    """,
    )


def test_a_readout_error_is_said_at_its_measurement():
    circuit = Circuit(1).measure(0)
    circuit.append(quantum.noise.ReadoutError(0.1, 0.02), [], clbits=[0])
    assert circuit.draw(width=80).split("\n")[-1].split() == ["0", "noisy"]


def test_a_condition_on_several_bits():
    circuit = Circuit(2, 3)
    with circuit.when([0, 2], 3):
        circuit.cx(1, 0)
    circuit.measure(1, 2)
    assert_drawn(
        circuit.draw(width=80),
        """
     q0: ────⊕───────────
             │     ┌───┐
     q1: ────●─────┤ M ├─
             ║     └─╥─┘
    c: 3/════╩═══════╩═══
          c[0,2]=3   2
    """,
    )


def test_gates_without_boxes_and_barriers():
    circuit = Circuit(4).swap(0, 2).cz(0, 3).ccx(0, 1, 3).cswap(1, 0, 3).barrier(1, 2).ccz(0, 1, 2)
    assert_drawn(
        circuit.draw(width=80),
        """
    q0: ─×─●─●─×───●─
         │ │ │ │   │
    q1: ─┼─┼─●─●─░─●─
         │ │ │ │ ░ │
    q2: ─×─┼─┼─┼─░─●─
           │ │ │
    q3: ───●─⊕─×─────
    """,
    )


def test_wide_gates_number_their_qubits_and_let_others_pass():
    circuit = (
        Circuit(4)
        .rzz("g", 1, 2)
        .rzz(0.3, 0, 2)
        .append("rzz", [0, 2], [1.0], controls=[1])
        .append("iswap", [3, 2], controls=[0])
    )
    assert_drawn(
        circuit.draw(width=80),
        """
                     ┌───────────┐ ┌─────────┐
    q0: ─────────────┤0          ├─┤0        ├─────●──────
         ┌─────────┐ │           │ │         │     │
    q1: ─┤0        ├─┼  RZZ(0.3) ┼─┤● RZZ(1) ├─────┼──────
         │  RZZ(g) │ │           │ │         │ ┌───┴────┐
    q2: ─┤1        ├─┤1          ├─┤1        ├─┤1       ├─
         └─────────┘ └───────────┘ └─────────┘ │  iSWAP │
    q3: ───────────────────────────────────────┤0       ├─
                                               └────────┘
    """,
    )


def test_angles_are_short_and_the_global_phase_is_said_above():
    circuit = (
        Circuit(2)
        .rx(np.pi / 3, 0)
        .p(-3 * np.pi / 4, 1)
        .u(0.1234567, "x", {"alpha": 2, "beta": -0.5}, 0)
        .crz("theta", 1, 0)
    )
    assert_drawn(
        circuit.global_phase(np.pi / 4).global_phase("a").draw(width=80),
        """
    global phase: a + π/4
         ┌──────────┐ ┌───────────────────────────────┐ ┌───────────┐
    q0: ─┤ RX(π/3)  ├─┤ U(0.123, x, 2alpha - 0.5beta) ├─┤ RZ(theta) ├─
         ├──────────┤ └───────────────────────────────┘ └─────┬─────┘
    q1: ─┤ P(-3π/4) ├─────────────────────────────────────────●───────
         └──────────┘
    """,
    )


def test_resets_and_a_controlled_global_phase():
    assert_drawn(
        Circuit(2).reset(1).append("global_phase", [], ["a"], controls=[0, 1]).draw(width=80),
        """
                 ┌──────┐
    q0: ─────────┤ P(a) ├─
         ┌─────┐ └──┬───┘
    q1: ─┤ |0⟩ ├────●─────
         └─────┘
    """,
    )


def test_long_circuits_go_on_below():
    circuit = Circuit(2).h(0).cx(0, 1).rz("a", 1).rz("b", 0).cx(1, 0).h(1).h(0).x(1)
    assert_drawn(
        circuit.draw(width=30),
        """
         ┌───┐   ┌───────┐
    q0: ─┤ H ├─●─┤ RZ(b) ├─⊕─»
         └───┘ │ ├───────┤ │
    q1: ───────⊕─┤ RZ(a) ├─●─»
                 └───────┘

         ┌───┐
    q0: ─┤ H ├───────
         ├───┤ ┌───┐
    q1: ─┤ H ├─┤ X ├─
         └───┘ └───┘
    """,
    )


def test_nothing_is_too_small_to_draw():
    assert Circuit(0).draw(width=80) == ""
    assert Circuit(1).draw(width=80) == "q0: ─"
    assert Circuit(0).global_phase(1.0).draw(width=80) == "global phase: 1"
    assert str(Circuit(1).barrier()).startswith("q0: ─░")


def random_circuit(n, gates, rng):
    circuit = Circuit(n)
    for _ in range(gates):
        name = rng.choice(["h", "rx", "cx", "rzz", "ccx", "swap", "fsim", "barrier", "measure"])
        qubits = rng.permutation(n)[:3].tolist()
        if name in ("barrier", "measure"):
            getattr(circuit, name)(qubits[0])
        else:
            k, p = {
                "h": (1, 0),
                "rx": (1, 1),
                "cx": (2, 0),
                "rzz": (2, 1),
                "ccx": (3, 0),
                "swap": (2, 0),
                "fsim": (2, 2),
            }[name]
            circuit.append(str(name), qubits[:k], rng.choice([0.5, "alpha", np.pi / 3, "a + 2*b"], p).tolist())
    return circuit


@pytest.mark.parametrize("width", [40, 80, 132])
def test_lines_are_as_long_as_asked_and_every_gate_is_there(width, rng):
    circuit = random_circuit(20, 100, rng)
    text = circuit.draw(width=width)
    assert max(map(len, text.split("\n"))) <= width
    assert text.count("⊕") == sum(v for k, v in circuit.counts().items() if k in ("cx", "ccx"))
    assert text.count("×") == 2 * circuit.counts()["swap"]
    assert len(re.findall("┤ +M +├", text)) == circuit.counts()["measure"]
    assert text.count("RZZ(") == circuit.counts()["rzz"]


@given(circuits(max_qubits=6, max_gates=15))
@settings(max_examples=50, deadline=None)
def test_any_circuit_can_be_drawn_with_wires_of_one_length(circuit):
    text = circuit.draw(width=10_000)
    wires = [line for line in text.split("\n") if re.match(r"q\d+: ", line)]
    assert len(wires) == circuit.num_qubits
    assert len({len(line) for line in wires}) == 1
    for q, line in enumerate(wires):
        # a controlled global phase is drawn as a P on its first control
        assert ("●" in line) >= any(q in (i.controls if i.qubits else i.controls[1:]) for i in circuit)


def test_every_channel_can_be_drawn():
    arguments = {1: [0.1], 2: [0.1, 0.2], 3: [0.1, 0.2, 0.3]}
    circuit = Circuit(3)
    for name, maker in CHANNELS.items():
        if maker.arguments in arguments and name not in ("kraus", "thermal_relaxation", "pauli_channel"):
            getattr(circuit, name)(*arguments[maker.arguments], 1)
    circuit.thermal_relaxation(50.0, 70.0, 1.0, 2).kraus([np.eye(2)], 0).pauli_channel({"X": 0.1}, 0).depolarizing(
        0.5, 0, 2
    )
    text = circuit.draw(width=1000)
    for i in circuit:
        assert i.gate.name in text
    assert circuit.draw("mpl").axes[0].texts


def test_what_is_too_large_to_read_is_printed_in_a_line():
    circuit = Circuit(400).extend(Circuit(400).h(0).repeat(300))
    assert str(circuit) == repr(circuit) == "Circuit(400 qubits, 300 instructions, 0 parameters)"
    assert len(circuit.draw(width=100)) > 10_000


def test_the_terminal_decides_when_no_width_is_given(monkeypatch):
    circuit = random_circuit(3, 60, np.random.default_rng(0))
    for columns in ("50", "100"):
        monkeypatch.setenv("COLUMNS", columns)
        assert int(columns) - 20 < max(map(len, str(circuit).split("\n"))) <= int(columns)


@pytest.mark.parametrize(
    "value, text",
    [
        (0.0, "0"),
        (1.0, "1"),
        (math.pi, "π"),
        (-math.pi, "-π"),
        (math.pi / 2, "π/2"),
        (-3 * math.pi / 4, "-3π/4"),
        (2 * math.pi / 3, "2π/3"),
        (math.pi / 256, "π/256"),
        (0.123456, "0.123"),
        (3.14159, "3.14"),
        (1e-7, "1e-7"),
        (12345.0, "1.23e4"),
        (7 * math.pi / 31, "0.709"),
        (quantum.Parameter("a"), "a"),
        (-quantum.Parameter("a"), "-a"),
        (math.pi * quantum.Parameter("a") - 0.5, "πa - 0.5"),
        (sum(quantum.Parameter(f"theta{k}") for k in range(9)), "theta0 + theta1 + theta…"),
    ],
)
def test_angles(value, text):
    assert angle_text(value) == text


def test_bad_options():
    for width in (0, 2.5, "wide"):
        with pytest.raises(CircuitError, match="width must be an integer >= 1"):
            Circuit(1).draw(width=width)
    with pytest.raises(CircuitError, match="output must be 'text', 'svg' or 'mpl', got 'latex'"):
        Circuit(1).draw("latex")


# -- figures -----------------------------------------------------------------------------------------------------------

pytest.importorskip("matplotlib")


def boxes_of_texts(figure):
    renderer = figure.canvas.get_renderer()
    return [t.get_window_extent(renderer) for axes in figure.axes for t in axes.texts if t.get_text()]


def overlapping(boxes):
    return [
        (a, b)
        for k, a in enumerate(boxes)
        for b in boxes[:k]
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 0.5 and min(a.y1, b.y1) - max(a.y0, b.y0) > 0.5
    ]


def long_names():
    c = (
        Circuit(3, 2)
        .rx("a_rather_long_name_of_an_angle", 0)
        .u("x", {"y": 2.5, "z": -1.25}, np.pi / 7, 1)
        .fsim("theta[0]", "theta[1]", 0, 2)
    )
    return (
        c.measure([0, 1]).append("rz", 2, ["a"], condition=gates.instruction.Condition((0, 1), 2)).global_phase("phi")
    )


@pytest.mark.parametrize(
    "circuit",
    [
        random_circuit(20, 100, np.random.default_rng(3)),
        quantum.qft(6),
        long_names(),
        Circuit(1).x(0),
        Circuit(1),
        Circuit(0),
        Circuit(40).h(39),
    ],
    ids=["20x100", "qft", "names", "one", "none", "empty", "tall"],
)
def test_texts_of_a_figure_overlap_nowhere_and_lie_inside_it(circuit):
    figure = circuit.draw("mpl")
    texts = boxes_of_texts(figure)
    assert not overlapping(texts)
    frame = figure.bbox
    for box in texts:
        assert box.x0 >= frame.x0 and box.x1 <= frame.x1 and box.y0 >= frame.y0 and box.y1 <= frame.y1


def test_boxes_are_as_wide_as_their_text(rng):
    figure = long_names().draw("mpl")
    from matplotlib.collections import PatchCollection

    axes = figure.axes[0]
    shapes = [
        path.transformed(axes.transData).get_extents()
        for c in axes.collections
        if isinstance(c, PatchCollection)
        for path in c.get_paths()
    ]
    patches = [p for p in shapes if p.width > 30]  # boxes, not dots
    for axes_text in figure.axes[0].texts:
        box = axes_text.get_window_extent(figure.canvas.get_renderer())
        home = [p for p in patches if p.x0 < (box.x0 + box.x1) / 2 < p.x1 and p.y0 < (box.y0 + box.y1) / 2 < p.y1]
        assert all(p.x0 <= box.x0 and box.x1 <= p.x1 for p in home)
    assert len(patches) == 6


def test_a_circuit_can_be_drawn_into_given_axes_and_pyplot_knows_of_nothing():
    import matplotlib.pyplot as pyplot
    from matplotlib.figure import Figure

    before = pyplot.get_fignums()
    axes = Figure().add_subplot()
    assert Circuit(2).h(0).cx(0, 1).draw("mpl", axes=axes) is axes
    assert axes.collections
    assert Circuit(2).draw("mpl")._repr_png_().startswith(b"\x89PNG")
    assert draw.histogram({"0": 1})._repr_png_().startswith(b"\x89PNG")
    assert pyplot.get_fignums() == before


def test_histogram_of_counts_samples_and_several_of_them():
    result = simulated(Circuit(2).h(0).cx(0, 1))
    axes = draw.histogram(result.sample(1000, seed=1))
    assert [t.get_text() for t in axes.get_xticklabels()] == ["00", "11"]
    assert sum(bar.get_height() for bar in axes.patches) == 1000
    axes = draw.histogram({"ideal": {"00": 0.5, "11": 0.5}, "noisy": {"00": 0.4, "01": 0.2, "11": 0.4}})
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["ideal", "noisy"]
    assert [bar.get_height() for bar in axes.patches] == [0.5, 0, 0.5, 0.4, 0.2, 0.4]
    assert axes.get_ylabel() == "probability"
    with pytest.raises(ValueError, match="dict by bit string, Samples, or a dict of these by name, got list"):
        draw.histogram([1, 2])
    with pytest.raises(ValueError, match="at least one outcome"):
        draw.histogram({})


def test_rare_outcomes_are_summed_in_one_bar():
    axes = draw.histogram({format(k, "06b"): k + 1 for k in range(64)}, most=8)
    labels = [t.get_text() for t in axes.get_xticklabels()]
    assert labels == [*(format(k, "06b") for k in range(56, 64)), "rest"]
    assert axes.patches[-1].get_height() == sum(range(1, 57))


def test_probabilities_are_those_of_the_qubits_asked():
    axes = draw.probabilities(simulated(Circuit(3).x(2).h(0)), [2, 1])
    assert [t.get_text() for t in axes.get_xticklabels()] == ["01"]
    assert axes.patches[0].get_height() == pytest.approx(1)


def test_arrows_of_bloch_spheres():
    figure = draw.bloch(simulated(Circuit(3).h(0).cx(1, 2).h(1)), [0, 2])
    assert [axes.get_title() for axes in figure.axes] == ["qubit 0", "qubit 2"]
    arrow = figure.axes[0].collections[-1]
    np.testing.assert_allclose(np.asarray(arrow._segments3d)[0], [[1, 0, 0], [0, 0, 0]], atol=1e-12)
    assert len(draw.bloch(np.array([1, 1j]) / np.sqrt(2)).axes) == 1
    with pytest.raises(CircuitError, match="from 0 to 0, got 1"):
        draw.bloch(np.array([1, 0]), 1)


def test_city_shows_real_and_imaginary_parts():
    figure = draw.city(simulated(Circuit(2).h(0).cx(0, 1).s(1)))
    assert [axes.get_title() for axes in figure.axes] == ["Re ρ", "Im ρ"]
    with pytest.raises(ValueError, match="at most 5 qubits"):
        draw.city(simulated(Circuit(6)))


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "triskele\[plot\]"'):
        Circuit(1).draw("mpl")
    with pytest.raises(ImportError, match="histogram: needs matplotlib"):
        draw.histogram({"0": 1})


@pytest.mark.parametrize("inches", [1.5, 6.0])
def test_texts_grow_and_shrink_with_their_axes(inches, tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(inches, inches))
    axes = figure.add_axes((0, 0, 1, 1))
    Circuit(6).h(0).givens(0.25, 0, 5).draw("mpl", axes=axes)
    figure.savefig(tmp_path / "small.png")
    (x0, _), (x1, _) = axes.transData.transform([(0, 0), (1, 0)])
    heights = [text.get_window_extent().height / (x1 - x0) for text in axes.texts]
    assert 0.1 < min(heights) and max(heights) < 0.6  # of the distance between two wires, at any size
