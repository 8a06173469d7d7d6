"""The PennyLane device: PennyLane's own device tests, and values and derivatives against its default device.

What PennyLane's tests leave out (they skip what a device says it does not support): gates of continuous variables,
qutrits, `DoubleExcitationPlus` and `DoubleExcitationMinus` (they have no decomposition, and are no product of our
factors), custom measurement transforms, and backpropagation through the simulator.
"""

import os
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("pennylane")
pytest.importorskip("flaky")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of PennyLane's own imports
    import pennylane as qml
    from pennylane import numpy as pnp

    from triskele.quantum.io.pennylane import TriskeleQubit

ROOT = pathlib.Path(__file__).parents[2]
SUITE = pathlib.Path(qml.__file__).parent / "devices" / "tests"
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]


def device_tests(*arguments):
    """PennyLane's device tests in a process of their own: they have their own settings of pytest."""
    paths = os.pathsep.join([str(ROOT / ".src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.conformance.pennylane_plugin",
        "--device=triskele.qubit",
        "--skip-ops",
        *arguments,
    ]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, cwd=ROOT.parent, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return done.stdout


def test_gradients_of_pennylanes_suite():
    assert " passed" in device_tests(str(SUITE / "test_gradients_autograd.py"), "--shots=None")


@pytest.mark.slow
@pytest.mark.parametrize("shots", ["None", "20000"])
def test_pennylanes_device_test_suite(shots):
    assert " passed" in device_tests(str(SUITE), f"--shots={shots}")


def layers(t, n):
    """Gates of most kinds that have angles."""
    for q in range(n):
        qml.Rot(*t[q], wires=q)
    qml.CRot(t[0, 0], t[0, 1], t[0, 2], wires=[0, 2])
    qml.adjoint(qml.RX(t[1, 0], wires=1))
    qml.ctrl(qml.RY(t[1, 1], wires=0), control=[1, 2], control_values=[0, 1])
    qml.ctrl(qml.PauliRot(t[1, 2], "XZ", wires=[0, 3]), control=1)
    qml.PauliRot(t[2, 0], "XIYZ", wires=[3, 1, 0, 2])
    qml.MultiRZ(t[2, 1], wires=[2, 0, 1])
    qml.SingleExcitation(t[2, 2], wires=[3, 1])
    qml.DoubleExcitation(t[3, 0], wires=[1, 0, 3, 2])
    qml.IsingXY(t[3, 1], wires=[0, 2])
    qml.GlobalPhase(t[3, 2])
    qml.ctrl(qml.GlobalPhase(t[3, 2]), control=3)
    qml.SingleExcitationPlus(t[3, 2], wires=[0, 1])
    qml.OrbitalRotation(t[3, 1], wires=[0, 1, 2, 3])
    qml.QubitUnitary(qml.RX.compute_matrix(0.3) @ qml.S.compute_matrix(), wires=2)
    qml.ISWAP([0, 3])
    qml.adjoint(qml.ISWAP)([1, 3])
    qml.ECR([2, 1])
    qml.SISWAP([0, 1])
    qml.PSWAP(t[0, 0], wires=[0, 1])
    qml.U3(t[0, 1], t[1, 1], t[2, 2], wires=0)


OBSERVABLES = [
    lambda: qml.expval(qml.Z(0) @ qml.X(2) + 0.3 * qml.Y(3)),
    lambda: qml.expval(qml.X(1)),
    lambda: qml.expval(qml.I(0) * 0.7),
]
THETA = pnp.array(np.random.default_rng(0).normal(size=(4, 3)), requires_grad=True)


def both(make):
    return [
        qml.QNode(make, device(wires=4))
        for device in (TriskeleQubit, lambda wires: qml.device("default.qubit", wires=wires))
    ]


@pytest.mark.parametrize("number, method", [(1, "best"), (3, "adjoint")])
def test_values_and_jacobians(number, method):
    def make(t):
        qml.StatePrep(np.arange(1, 17) / np.linalg.norm(np.arange(1, 17)), wires=range(4))
        layers(t, 4)
        return [observable() for observable in OBSERVABLES[:number]]

    mine = qml.QNode(make, TriskeleQubit(wires=4), diff_method=method)
    theirs = qml.QNode(make, qml.device("default.qubit", wires=4), diff_method="backprop")
    np.testing.assert_allclose(np.stack(mine(THETA)), np.stack(theirs(THETA)), atol=1e-12)
    jacobians = [qml.jacobian(lambda t, f=f: pnp.stack(f(t)))(THETA) for f in (mine, theirs)]
    np.testing.assert_allclose(*jacobians, atol=1e-10)


def test_derivatives_by_name():
    """What PennyLane asks of a device that has derivatives: shapes of one and of several results, of one and of several
    parameters.
    """
    device = TriskeleQubit(wires=2)
    config = device.setup_execution_config(qml.devices.ExecutionConfig(gradient_method="adjoint"))
    assert config.use_device_gradient and config.use_device_jacobian_product
    one = qml.tape.QuantumScript([qml.RX(0.3, 0)], [qml.expval(qml.Z(0))])
    two = qml.tape.QuantumScript([qml.RX(0.3, 0), qml.RY(0.4, 1)], [qml.expval(qml.Z(0)), qml.expval(qml.X(1))])
    first, second = device.compute_derivatives((one, two), config)
    np.testing.assert_allclose(first, -np.sin(0.3), atol=1e-14)
    np.testing.assert_allclose(second, [[-np.sin(0.3), 0], [0, np.cos(0.4)]], atol=1e-14)
    values, (ct_one, ct_two) = device.execute_and_compute_vjp((one, two), (2.0, (1.0, 3.0)), config)
    np.testing.assert_allclose(values[1], [np.cos(0.3), np.sin(0.4)], atol=1e-14)
    np.testing.assert_allclose(ct_one, [-2 * np.sin(0.3)], atol=1e-14)
    np.testing.assert_allclose(ct_two, [-np.sin(0.3), 3 * np.cos(0.4)], atol=1e-14)
    assert not device.supports_derivatives(config, qml.tape.QuantumScript([qml.RX(0.3, 0)], [qml.probs(wires=0)]))


@pytest.mark.parametrize(
    "measurement",
    [
        lambda: qml.state(),
        lambda: qml.probs(wires=[3, 1]),
        lambda: qml.var(qml.Z(0) @ qml.X(3)),
        lambda: qml.expval(qml.Hermitian(np.diag([1.0, 2, 3, 4]), wires=[2, 0])),
        lambda: qml.density_matrix(wires=[1, 2]),
        lambda: qml.vn_entropy(wires=[0]),
        lambda: qml.purity(wires=[0, 3]),
        lambda: qml.expval(qml.Projector([1, 0], wires=[1, 3])),
    ],
)
def test_other_measurements(measurement):
    def make(t):
        layers(t, 4)
        return measurement()

    mine, theirs = both(make)
    np.testing.assert_allclose(mine(THETA), theirs(THETA), atol=1e-12)


def test_shots():
    def make(t):
        layers(t, 4)
        return qml.counts(wires=[0, 1]), qml.expval(qml.X(1)), qml.sample(wires=2)

    node = qml.set_shots(qml.QNode(make, TriskeleQubit(wires=4, seed=3)), shots=40_000)
    counts, x, samples = node(THETA)
    exact = both(lambda t: (layers(t, 4), [qml.probs(wires=[0, 1]), qml.expval(qml.X(1)), qml.expval(qml.Z(2))])[1])[1](
        THETA
    )
    sampled = np.array([counts.get(k, 0) for k in ("00", "01", "10", "11")]) / 40_000
    np.testing.assert_allclose(sampled, exact[0], atol=5 * 0.5 / 200)  # five standard errors
    np.testing.assert_allclose([x, 1 - 2 * samples.mean()], exact[1:], atol=5 / 200)


def test_measurements_on_the_way_are_deferred():
    def make(t):
        qml.RX(t, wires=0)
        qml.cond(qml.measure(0), qml.RY)(0.4, wires=1)
        return qml.expval(qml.Z(1))

    mine = qml.QNode(make, TriskeleQubit(wires=3), diff_method="adjoint")
    t = pnp.array(0.7, requires_grad=True)
    expected = np.cos(0.35) ** 2 + np.sin(0.35) ** 2 * np.cos(0.4)
    np.testing.assert_allclose(mine(t), expected, atol=1e-14)
    np.testing.assert_allclose(qml.grad(mine)(t), -0.5 * np.sin(0.7) * (1 - np.cos(0.4)), atol=1e-14)


def test_batches_and_wires_of_any_name():
    def make(t):
        qml.RX(t, wires="a")
        qml.CNOT(wires=["a", 7])
        return qml.expval(qml.Z(7))

    t = np.linspace(0, 3, 5)
    for wires in (["a", 7, "unused"], None):
        np.testing.assert_allclose(qml.QNode(make, TriskeleQubit(wires=wires))(t), np.cos(t), atol=1e-14)


def test_second_derivatives_by_shifts():
    node = qml.QNode(
        lambda t: (qml.RX(t[0], wires=0), qml.RY(t[1], wires=0), qml.expval(qml.Z(0)))[2],
        TriskeleQubit(wires=1),
        diff_method="parameter-shift",
        max_diff=2,
    )
    a, b = 0.3, 0.8
    hessian = qml.jacobian(qml.grad(node))(pnp.array([a, b], requires_grad=True))
    np.testing.assert_allclose(
        hessian,
        [[-np.cos(a) * np.cos(b), np.sin(a) * np.sin(b)], [np.sin(a) * np.sin(b), -np.cos(a) * np.cos(b)]],
        atol=1e-12,
    )


def test_structure_is_compiled_once():
    device = TriskeleQubit(wires=4)
    node = qml.QNode(lambda t: (layers(t, 4), OBSERVABLES[0]())[1], device, diff_method="adjoint")
    for k in range(3):
        qml.grad(node)(THETA + k)
    assert len(device._templates) == len(device._expectations) == 1
