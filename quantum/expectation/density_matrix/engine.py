"""Expectation values after noisy circuits, and their derivatives: the adjoint method on vectors of Pauli expectation
values.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import threads

from ...noise.channel import pauli_strings
from ...noise.readout import ReadoutError
from ...operators.pauli import PauliSum
from ...parameters import Linear
from ...simulators.density_matrix import backward
from ...simulators.density_matrix import vector_kernels as kernels
from ...simulators.density_matrix.lower import Segment
from ...simulators.density_matrix.simulator import check_size
from ...simulators.density_matrix.transfer import FUNCTIONS, Wide, elements, wide_kraus
from ...simulators.density_matrix.transfer_program import CHUNKS, TransferProgram, is_scaling, positions
from ...simulators.density_matrix.vector import PauliVector
from ..engine import Engine, examples
from ..statevector.functions import complex_matrix
from .second import second

__all__ = ["DensityEngine"]

_KEPT = 1 << 29  # bytes of vectors that are kept at a time
_COPIES = 24  # of a block, before operations that depend on parameters; more split a stage


class DensityEngine(Engine):
    """Tr(H rho) after a circuit with channels, on vectors of Pauli expectation values.

    Measurements whose outcome nothing depends on, and resets, are channels too. Numbers are of double precision.
    """

    def __init__(self, circuit: Any, hamiltonians: Sequence[PauliSum], single: bool, initial: Any):
        self.hamiltonians, self.names, self.num_qubits = (
            hamiltonians,
            circuit.parameters + circuit.data,
            circuit.num_qubits,
        )
        self.maps = [e for i in circuit if not isinstance(i.gate, ReadoutError) for e in elements(i)]
        m = check_size(positions(self.maps, self.num_qubits))
        self.program = TransferProgram(self.maps, self.num_qubits, self.names, m)
        self._ticks = [
            (step, s) for step in self.program.steps for s in (_split(step) if isinstance(step, Segment) else [None])
        ]

    def observing(self, hamiltonians: Sequence[PauliSum]) -> DensityEngine:
        new = copy.copy(self)
        new.hamiltonians = hamiltonians
        return new

    def values(self, values: np.ndarray, start: np.ndarray) -> np.ndarray:
        """(B, m) expectation values."""
        return np.array([[t.sum() for t in self.terms(v[0], s, True)] for v, s in examples(values, start)])

    def terms(self, values: np.ndarray, start: np.ndarray, weighted: bool = False) -> list[np.ndarray]:
        """Expectation value of every string of each operator, times its coefficient or not."""
        state = self.program.run(values, self.start(start))
        found = [state.r[state.indices(h)] for h in self.hamiltonians]
        return [f * h.coefficients.real for f, h in zip(found, self.hamiltonians, strict=True)] if weighted else found

    def start(self, given: np.ndarray) -> PauliVector:
        """The initial state."""
        if not given.size:
            return PauliVector.zero(self.num_qubits, self.program.positions)
        return PauliVector.of(np.asarray(given[0], complex), self.program.positions)

    def jacobian(self, values: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (B, m) and gradients (B, m, V)."""
        rows = [self._sweep(v[0], self.start(s), np.eye(len(self.hamiltonians))) for v, s in examples(values, start)]
        return np.array([r[0] for r in rows]), np.array([r[1] for r in rows])

    def pull(self, values: np.ndarray, ct: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values (B, m), and gradients of sum_i ct_i E_i with respect to values (B, V) and initial states (B, 2**n or
        0).
        """
        energies, gradients, states = [], [], []
        for v, w, s in examples(values, ct, start):
            energy, gradient, cotangents = self._sweep(v[0], self.start(s), w)
            energies.append(energy)
            gradients.append(gradient[0])
            states.append(initial_cotangent(cotangents[0], s[0]) if s.size else np.zeros(0, complex))
        return np.array(energies), np.array(gradients), np.array(states)

    def second(self, values, d_values, start, d_start, changes, weights):
        given = None if changes is None else [h.coefficients.real for h in changes]
        return second(self, values, d_values, start, d_start, given, weights, given is not None)

    def _sweep(
        self, values: np.ndarray, state: PauliVector, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, list[PauliVector]]:
        """Values (m,), gradients of weights @ values (k, V), and the k cotangents of the initial state."""
        angles = self.program.slopes @ values + self.program.constants
        filled = {
            id(step): self.program.fill(step, angles, values)
            for step in self.program.steps
            if isinstance(step, Segment)
        }
        every = max(1, math.isqrt(len(self._ticks))) if state.r.nbytes * len(self._ticks) > _KEPT else 1
        kept = []
        for number, tick in enumerate(self._ticks):
            if number % every == 0:
                kept.append(state.copy())
            state = self._advance(tick, values, filled, state)
        found = [state.indices(h) for h in self.hamiltonians]
        energies = np.array([state.r[f] @ h.coefficients.real for f, h in zip(found, self.hamiltonians, strict=True)])
        cotangents = []
        for w in weights:
            r = np.zeros(state.r.size)
            for c, f, h in zip(w, found, self.hamiltonians, strict=True):
                r[f] += c * h.coefficients.real
            cotangents.append(PauliVector(r, list(state.where)))
        gradients, angle_slopes = np.zeros((len(weights), len(values))), np.zeros((len(weights), len(angles)))
        back = _Back(self.program, values, angles, filled, cotangents, gradients, angle_slopes)
        for group in range(len(kept) - 1, -1, -1):
            ticks = self._ticks[group * every : (group + 1) * every]
            states = [kept.pop()]
            for tick in ticks[:-1]:
                states.append(self._advance(tick, values, filled, states[-1].copy()))
            for tick in reversed(ticks):
                back.tick(tick, states.pop())
        back.finish()
        return energies, gradients + angle_slopes @ self.program.slopes, back.cotangents

    def _advance(self, tick: Any, values: np.ndarray, filled: dict[int, np.ndarray], state: PauliVector) -> PauliVector:
        step, stage = tick
        if isinstance(step, Wide):
            return self.program.wide(step, values, state)
        kernels.run(
            state.r,
            self.program.positions,
            stage,
            step.rows,
            step.ints,
            filled[id(step)],
            threads.body(kernels.run_chunk),
            CHUNKS,
            self.program.work_size,
        )
        if stage[0, 6] == len(step.rows):
            state.where = step.after
        return state


class _Back:
    """The backward sweep of several cotangents at once."""

    def __init__(
        self,
        program: TransferProgram,
        values: np.ndarray,
        angles: np.ndarray,
        filled: dict[int, np.ndarray],
        cotangents: list[PauliVector],
        gradients: np.ndarray,
        angle_slopes: np.ndarray,
    ):
        self.program, self.values, self.angles, self.filled = program, values, angles, filled
        self.cotangents, self.gradients, self.angle_slopes = cotangents, gradients, angle_slopes
        self.named = dict(zip(program.names, values.tolist(), strict=True))
        self.segment: Segment | None = None

    def tick(self, tick: Any, before: PauliVector) -> None:
        """One stage or wide map, `before` being the state it began with."""
        step, stage = tick
        if isinstance(step, Wide):
            self.finish()
            self.wide(step, before)
            return
        if step is not self.segment:
            self.finish()
            self.segment = step
            coefficients = self.filled[id(step)]
            self.both = np.concatenate([coefficients, coefficients])
            backward.transpose(step.rows, coefficients, self.both[len(coefficients) :])
            self.sums = [np.zeros(len(coefficients)) for _ in self.cotangents]
        active = int(stage[0, 0])
        chunks = min(CHUNKS, 4 ** (self.program.positions - active))
        scratch = 8 * 4**self.program.widest
        for sums, cotangent in zip(self.sums, self.cotangents, strict=True):
            out = np.zeros((chunks, len(sums)))
            backward.unwind(
                before.r,
                cotangent.r,
                self.program.positions,
                stage,
                0,
                step.rows,
                step.ints,
                self.both,
                out,
                threads.body(backward.unwind_chunk),
                chunks,
                scratch,
            )
            sums += out.sum(0)
            cotangent.where = step.before

    def finish(self) -> None:
        """Derivatives with respect to a segment's coefficients to those with respect to angles and values."""
        step, self.segment = self.segment, None
        if step is None:
            return
        for sums, slopes, gradient in zip(self.sums, self.angle_slopes, self.gradients, strict=True):
            backward.slopes(step.fills, step.table, self.angles, sums, slopes)
            for instruction in {id(s[0]): s[0] for s in step.sources}.values():
                g = np.zeros((4 ** (len(instruction.qubits) + len(instruction.controls)),) * 2)
                for other, _, part, place in step.sources:
                    if other is instruction:
                        g[part[:, None], part] = sums[place : place + part.size**2].reshape(part.size, part.size)
                self.function(instruction, g, gradient)

    def function(self, instruction: Any, g: np.ndarray, gradient: np.ndarray) -> None:
        """Gradient through the matrix U of a user's function: R_st = Re Tr(P_s U P_t U^dagger) / N has the derivative
        g.
        """
        from triskele import core

        strings, u = pauli_strings(len(instruction.qubits) + len(instruction.controls)), instruction.matrix(self.named)
        pulled = 2 / len(u) * np.einsum("st,tij,kj,skl->li", g, strings, u.conj(), strings, optimize=True)
        size = 1 << len(instruction.qubits)
        params = [p(self.named) if isinstance(p, Linear) else p for p in instruction.params]
        slopes = core.vjp(complex_matrix(instruction.gate), *params)[1](np.ascontiguousarray(pulled[-size:, -size:]))
        for p, slope in zip(instruction.params, slopes, strict=True):
            if isinstance(p, Linear):
                self.add(p, float(slope), gradient)

    def add(self, angle: Linear, slope: float, gradient: np.ndarray) -> None:
        for name, c in angle.terms:
            gradient[self.program.names.index(name)] += c * slope

    def wide(self, step: Wide, before: PauliVector) -> None:
        for k, cotangent in enumerate(self.cotangents):
            if is_scaling(step):
                self.cotangents[k] = self.program.wide(step, self.values, cotangent)
                continue
            if isinstance(step.angle, Linear):
                self.add(step.angle, self.slope(step, before, cotangent), self.gradients[k])
            elif step.factor is None and any(isinstance(p, Linear) for p in step.instruction.params):
                from ...errors import SimulatorError

                raise SimulatorError(
                    f"Expectation: {step.instruction.gate.name} on {len(step.qubits)} qubits has no "
                    f"derivative here (at most 4 qubits)"
                )
            adjoint = wide_kraus(step, self.named).conj().transpose(0, 2, 1)
            self.cotangents[k] = self.program.conjugate(adjoint, step.qubits, cotangent).arranged(before.where)

    def slope(self, step: Wide, before: PauliVector, cotangent: PauliVector) -> float:
        """Derivative with respect to the angle of a trigonometric polynomial with frequencies 0, 1/2, 1, from five
        values.
        """
        total = 0.0
        for j in range(1, FUNCTIONS):
            u = 2 * math.pi * j / FUNCTIONS
            moved = step._replace(angle=step.angle + 2 * u)
            value = cotangent.r @ self.program.conjugate(wide_kraus(moved, self.named), step.qubits, before).r
            total += value * (math.sin(u) + 2 * math.sin(2 * u)) / FUNCTIONS
        return total


def initial_cotangent(cotangent: PauliVector, psi: np.ndarray) -> np.ndarray:
    """g with dE = Re(sum g dpsi), for E = <psi|A|psi>, A = sum of cotangents times Pauli strings."""
    return 2 * ((cotangent.matrix() * len(psi)) @ psi).conj()


def _split(segment: Segment) -> list[np.ndarray]:
    """Stages (1, STAGE) with at most `_COPIES` operations that depend on parameters."""
    found = []
    for stage in segment.stages:
        first, count = stage[5], 0
        for row in range(stage[5], stage[6]):
            count += segment.rows[row, -1] > 0
            if count > _COPIES:
                found.append([*stage[:5], first, row])
                first, count = row, 1
        found.append([*stage[:5], first, stage[6]])
    return [np.array([s], np.int64) for s in found]
