"""The standard channels.

Each is a function that makes a `Channel`, and a method of `Circuit` (numbers first, then qubits).
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from triskele.core.extend import check

from ..errors import ChannelError
from .channel import Channel, kraus_of_choi

__all__ = [
    "CHANNELS",
    "amplitude_damping",
    "bit_flip",
    "bit_phase_flip",
    "depolarizing",
    "generalized_amplitude_damping",
    "kraus",
    "make",
    "pauli_channel",
    "pauli_depolarizing",
    "phase_damping",
    "phase_flip",
    "register_channel",
    "thermal_relaxation",
]


class _Maker(NamedTuple):
    function: Callable[..., Channel]
    arguments: int  # how many come before the qubits
    sized: bool  # whether the function takes num_qubits


CHANNELS: dict[str, _Maker] = {}


def register_channel(arguments: int, sized: bool = False) -> Callable[[Callable[..., Channel]], Callable[..., Channel]]:
    """Decorator: make a channel function a method of `Circuit` under its name.

    Parameters
    ----------
    arguments : int
        Number of arguments other than qubits.
    sized : bool
        True if the function also takes `num_qubits`, the number of qubits that the method is given.

    Examples
    --------
    >>> from triskele import quantum
    >>> from triskele.quantum import noise
    >>> @noise.register_channel(1)
    ... def weak_flip(p):
    ...     return noise.bit_flip(p / 2)
    >>> len(quantum.Circuit(1).weak_flip(0.1, 0))
    1
    """

    def register(function: Callable[..., Channel]) -> Callable[..., Channel]:
        if function.__name__ in CHANNELS:
            raise ChannelError(f"register_channel: there is a channel {function.__name__!r} already")

        @functools.wraps(function)
        def made(*given: Any, **options: Any) -> Channel:
            channel = function(*given, **options)
            channel.arguments = given[:arguments]
            return channel

        CHANNELS[function.__name__] = _Maker(made, arguments, sized)
        return made

    return register


def make(name: str, arguments: Sequence[Any], num_qubits: int, **options: Any) -> Channel:
    """Make the registered channel `name` with these arguments; methods of `Circuit` call this."""
    maker = CHANNELS[name]
    if len(arguments) != maker.arguments or num_qubits < 1:
        raise ChannelError(
            f"{name}: {maker.arguments} numbers and then qubits are needed, got {len(arguments)} "
            f"numbers and {num_qubits} qubits"
        )
    return maker.function(*arguments, **options, **({"num_qubits": num_qubits} if maker.sized else {}))


def method(name: str) -> Callable[..., Any] | None:
    """Return the method of `Circuit` that adds the registered channel `name`, or None if there is none."""
    if name not in CHANNELS:
        return None
    first = CHANNELS[name].arguments

    def add(self: Any, *arguments: Any, **options: Any) -> Any:
        return self.append(make(name, arguments[:first], len(arguments) - first, **options), arguments[first:])

    add.__name__, add.__doc__ = name, CHANNELS[name].function.__doc__
    add.__qualname__, add.__module__ = f"Circuit.{name}", "triskele.quantum.circuit"
    given = list(inspect.signature(CHANNELS[name].function).parameters.values())
    names = ["self", *(p.name for p in given[:first])]
    positional = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in names]
    add.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            *positional,
            inspect.Parameter("qubits", inspect.Parameter.VAR_POSITIONAL),
            *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in given[first:] if p.name != "num_qubits"),
        ]
    )
    return add


def _probability(where: str, value: Any, most: float = 1.0, what: str = "p") -> float:
    return check.number(value, f"{where}: {what}", 0, most, error=ChannelError)


@functools.lru_cache(1024)
def _single(name: str, x: float, z: float, y: float) -> Channel:
    return Channel.pauli(name, [1.0 - x - y - z, x, z, y])


@register_channel(1)
def bit_flip(p: float) -> Channel:
    """X with probability `p` (Nielsen and Chuang, section 8.3.3).

    Examples
    --------
    >>> from triskele.quantum.noise import bit_flip
    >>> bit_flip(0.25).mixture[0].round(12).tolist()
    [0.75, 0.25]
    """
    return _single("bit_flip", _probability("bit_flip", p), 0.0, 0.0)


@register_channel(1)
def phase_flip(p: float) -> Channel:
    """Z with probability `p` (Nielsen and Chuang, section 8.3.3).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum import noise
    >>> noise.phase_flip(0.25)(np.full((2, 2), 0.5)).real.round(12).tolist()
    [[0.5, 0.25], [0.25, 0.5]]
    """
    return _single("phase_flip", 0.0, _probability("phase_flip", p), 0.0)


@register_channel(1)
def bit_phase_flip(p: float) -> Channel:
    """Y with probability `p` (Nielsen and Chuang, section 8.3.3).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum import noise
    >>> noise.bit_phase_flip(0.25)(np.diag([0.0, 1.0])).real.round(12).tolist()
    [[0.25, 0.0], [0.0, 0.75]]
    """
    return _single("bit_phase_flip", 0.0, 0.0, _probability("bit_phase_flip", p))


@register_channel(1, sized=True)
def depolarizing(p: float, num_qubits: int = 1) -> Channel:
    """With probability `p` the qubits become maximally mixed: rho -> (1 - p) rho + p Tr(rho) 1/2**q (Nielsen and
    Chuang, section 8.3.4).

    This is Qiskit's and MindQuantum's convention. Pauli strings other than 1 then have probability p/4**q each, and p
    may be up to 4**q/(4**q - 1). For the convention of Cirq, PennyLane and qulacs see `pauli_depolarizing`.

    Parameters
    ----------
    p : float
        0 to 4**q/(4**q - 1).
    num_qubits : int
        q, any number.

    Raises
    ------
    ChannelError
        If `p` is outside this range.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.noise import depolarizing
    >>> depolarizing(0.5)(np.diag([1.0, 0.0])).real.round(12).tolist()
    [[0.75, 0.0], [0.0, 0.25]]
    """
    strings = 4.0**num_qubits
    return _uniform("depolarizing", _probability("depolarizing", p, strings / (strings - 1)) / strings, num_qubits)


@register_channel(1, sized=True)
def pauli_depolarizing(p: float, num_qubits: int = 1) -> Channel:
    """With probability `p` one of the 4**q - 1 Pauli strings other than 1, each as likely as the others.

    The convention of Cirq, PennyLane and qulacs; it is `depolarizing(p 4**q / (4**q - 1))`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum import noise
    >>> noise.pauli_depolarizing(0.3)(np.diag([0.0, 1.0])).real.round(12).tolist()
    [[0.2, 0.0], [0.0, 0.8]]
    """
    return _uniform("pauli_depolarizing", _probability("pauli_depolarizing", p) / (4.0**num_qubits - 1), num_qubits)


@functools.lru_cache(256)
def _uniform(name: str, each: float, num_qubits: int) -> Channel:
    p = np.full(4**num_qubits, each)
    p[0] = max(1.0 - each * (p.size - 1), 0.0)
    return Channel.pauli(name, p)


@register_channel(1, sized=True)
def pauli_channel(probabilities: Mapping[str, float], num_qubits: int | None = None) -> Channel:
    """Pauli strings with given probabilities; the identity has the remaining probability.

    Parameters
    ----------
    probabilities : dict
        Letters, one a qubit, the first for the first qubit (`{"X": 0.1, "Z": 0.05}`, `{"XI": 0.1, "ZZ": 0.2}`), to
        probabilities.
    num_qubits : int, optional
        Checked against the letters.

    Raises
    ------
    ChannelError
        If a key is not a Pauli string of that length, or the probabilities are invalid.

    Examples
    --------
    >>> from triskele.quantum.noise import pauli_channel
    >>> pauli_channel({"XI": 0.1, "ZZ": 0.2}).num_qubits
    2
    """
    check.kind(
        probabilities,
        Mapping,
        "pauli_channel: probabilities",
        "a mapping of Pauli strings to probabilities",
        error=ChannelError,
    )
    lengths = {len(s) for s in probabilities}
    q = num_qubits or max(lengths, default=0)
    if not probabilities or lengths != {q} or any(set(s) - set("IXYZ") for s in probabilities):
        raise ChannelError(
            f"pauli_channel: keys must be strings of {q} letters I, X, Y or Z, one for each qubit, got "
            f"{list(probabilities)}"
        )
    p = np.zeros(4**q)
    for string, value in probabilities.items():
        p[sum("IXZY".index(letter) << 2 * k for k, letter in enumerate(string))] += _probability(
            "pauli_channel", value, what=string
        )
    if p.sum() > 1 + 1e-10:
        raise ChannelError(f"pauli_channel: probabilities must sum to at most 1, got {p.sum():.12g}")
    p[0] += max(1.0 - p.sum(), 0.0)
    return Channel.pauli("pauli_channel", p)


@register_channel(1)
def amplitude_damping(gamma: float) -> Channel:
    """Decay of 1 to 0 with probability `gamma` (Nielsen and Chuang, section 8.3.5).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.noise import amplitude_damping
    >>> amplitude_damping(0.25)(np.diag([0.0, 1.0])).real.round(12).tolist()
    [[0.25, 0.0], [0.0, 0.75]]
    """
    g = _probability("amplitude_damping", gamma, what="gamma")
    return _damping("amplitude_damping", g, 1.0)


@register_channel(2)
def generalized_amplitude_damping(gamma: float, p: float) -> Channel:
    """Relaxation by `gamma` towards diag(p, 1 - p) (Nielsen and Chuang, section 8.3.5).

    Parameters
    ----------
    gamma : float
        Probability of relaxing.
    p : float
        Population of 0 at equilibrium; 1 is amplitude damping at zero temperature.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum import noise
    >>> noise.generalized_amplitude_damping(1.0, 0.9)(np.diag([0.0, 1.0])).real.round(12).tolist()
    [[0.9, 0.0], [0.0, 0.1]]
    """
    where = "generalized_amplitude_damping"
    return _damping(where, _probability(where, gamma, what="gamma"), _probability(where, p))


@functools.lru_cache(1024)
def _damping(name: str, g: float, p: float) -> Channel:
    keep, drop = math.sqrt(1.0 - g), math.sqrt(g)
    down = math.sqrt(p) * np.array([[[1, 0], [0, keep]], [[0, drop], [0, 0]]])
    up = math.sqrt(1.0 - p) * np.array([[[keep, 0], [0, 1]], [[0, 0], [drop, 0]]])
    return Channel(name, [*down, *up])


@register_channel(1)
def phase_damping(gamma: float) -> Channel:
    """Coherence shrinks by sqrt(1 - gamma), populations stay (Nielsen and Chuang, section 8.3.6).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum import noise
    >>> noise.phase_damping(0.36)(np.full((2, 2), 0.5)).real.round(12).tolist()
    [[0.5, 0.4], [0.4, 0.5]]
    """
    g = _probability("phase_damping", gamma, what="gamma")
    return Channel("phase_damping", [np.diag([1.0, math.sqrt(1.0 - g)]), np.diag([0.0, math.sqrt(g)])])


@register_channel(3)
def thermal_relaxation(t1: float, t2: float, time: float, excited_population: float = 0.0) -> Channel:
    """Relaxation for `time`: populations approach equilibrium as exp(-time/t1), coherence decays as exp(-time/t2).

    Parameters
    ----------
    t1, t2 : float
        Relaxation times, above 0 (may be infinite), with t2 at most 2 t1.
    time : float
        Duration in the same unit, at least 0.
    excited_population : float
        Population of 1 at equilibrium.

    Raises
    ------
    ChannelError
        If a time is out of range.

    References
    ----------
    Nielsen and Chuang, section 8.4.1: T1 and T2 of generalized amplitude damping followed by phase damping.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.noise import thermal_relaxation
    >>> rho = thermal_relaxation(50.0, 70.0, 10.0)(np.full((2, 2), 0.5))
    >>> bool(np.isclose(rho[1, 1], 0.5 * np.exp(-0.2))), bool(np.isclose(rho[0, 1], 0.5 * np.exp(-1 / 7)))
    (True, True)
    """
    for what, value in (("t1", t1), ("t2", t2)):
        if not value > 0:
            raise ChannelError(f"thermal_relaxation: {what} must be above 0, got {value!r}")
    check.number(time, "thermal_relaxation: time", 0, error=ChannelError)
    if t2 > 2 * t1 * (1 + 1e-12):
        raise ChannelError(f"thermal_relaxation: t2 must be at most 2 t1, got t1 = {t1}, t2 = {t2}")
    excited = _probability("thermal_relaxation", excited_population, what="excited_population")
    return _relaxing(t1, t2, time, excited)


@functools.lru_cache(4096)  # about the number of gates that a device has on all its qubits
def _relaxing(t1: float, t2: float, time: float, excited: float) -> Channel:
    relaxed, coherence = -math.expm1(-time / t1), math.exp(-time / t2)
    choi = np.diag([1 - excited * relaxed, excited * relaxed, (1 - excited) * relaxed, 1 - (1 - excited) * relaxed])
    choi[0, 3] = choi[3, 0] = coherence
    return Channel("thermal_relaxation", kraus_of_choi(choi))


@register_channel(1)
def kraus(operators: Sequence[Any]) -> Channel:
    """The channel with these Kraus operators (m, 2**q, 2**q); bit j of an index is the channel's qubit j.

    Raises
    ------
    ChannelError
        If they are not matrices of one size 2**q, or do not preserve the trace.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum import noise
    >>> decay = noise.kraus([np.diag([1.0, 0.6]), np.array([[0.0, 0.8], [0.0, 0.0]])])
    >>> decay(np.diag([0.0, 1.0])).real.round(12).tolist()
    [[0.64, 0.0], [0.0, 0.36]]
    """
    return Channel("kraus", operators)
