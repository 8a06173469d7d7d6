"""The compiled form of `GB`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task

from ... import units
from ...engine.plan import ROW, Plan
from ...engine.plan import add_forces as add_own_forces
from ...neighbors.rows import shared_rows
from ..pairs.dense import add_forces, pack_atoms
from . import cut_kernels, kernels
from .tables import NECK_CUTOFF, Model

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .gb import GB

_CHUNK_PAIRS = 8000  # pairs of atoms in a chunk: some 50 us
_MOST_CHUNKS = 32
_CHUNK_ATOMS = 64  # with a cut-off: some 100 us


class GBPlan(Plan):
    """The tasks, and their table of atoms, from which derivatives by parameters follow too."""

    def __init__(self, atoms: np.ndarray, **parts: Any):  # (ATOM_ROWS, padded), rows as in `kernels`
        super().__init__(**parts)
        self.atoms = atoms


def atom_table(model: Model, params: dict[str, np.ndarray]) -> np.ndarray:
    """The kernels' table of atoms [ATOM_ROWS, padded] with their parameters."""
    n = len(params["radii"])
    atoms = np.zeros((kernels.ATOM_ROWS, -(-n // 8) * 8))
    rho = params["radii"] - model.offset
    values = {
        kernels.CHARGE: params["charges"],
        kernels.RHO: rho,
        kernels.SCREEN: params["scales"] * rho,
        kernels.RADIUS: params["radii"],
    }
    if model.rescaling is not None:
        values |= {kernels.ALPHA: params["alpha"], kernels.BETA: params["beta"], kernels.GAMMA: params["gamma"]}
    atoms[[kernels.RHO, kernels.RADIUS, kernels.BORN]] = 0.1  # of padding, for which nothing follows from it
    for row, v in values.items():
        atoms[row, :n] = v
    return atoms


def constants_of(potential: GB) -> np.ndarray:
    """The kernels' constants."""
    from .gb import PROBE

    model, constants = potential.constants, np.zeros(kernels.N_CONSTANTS)
    constants[
        [
            kernels.SOLUTE,
            kernels.SOLVENT,
            kernels.KAPPA,
            kernels.TENSION,
            kernels.PROBE,
            kernels.NECK,
            kernels.NECK_CUTOFF,
            kernels.RESCALED,
            kernels.COULOMB,
            kernels.SHIFT,
        ]
    ] = [
        1 / potential.solute_dielectric,
        1 / potential.solvent_dielectric,
        potential.kappa,
        potential.surface_tension,
        PROBE,
        model.neck,
        NECK_CUTOFF,
        model.rescaling is not None,
        units.COULOMB,
        0.0 if potential.cutoff is None else 1 / potential.cutoff,
    ]
    return constants


def plan(potential: GB, engine: Engine) -> GBPlan:
    """Tasks of all stages; results do not depend on `engine.precision`, all is float64."""
    from .gb import neck_pair_tables

    params, model, n = potential.params, potential.constants, engine.n
    atoms, constants = atom_table(model, params), constants_of(potential)
    padded = atoms.shape[1]
    kinds = np.zeros(padded, np.int64)
    radii, kinds[:n] = np.unique(params["radii"], return_inverse=True)
    d0, m0 = neck_pair_tables(radii) if model.neck else (np.zeros((1, 1)), np.zeros((1, 1)))
    if potential.cutoff is not None:
        return _within_cutoff(potential.cutoff, engine, atoms, (kinds, d0, m0), constants)
    chunks = int(np.clip(n * n // 2 // _CHUNK_PAIRS, 1, _MOST_CHUNKS))
    sums = np.zeros((chunks, kernels.SUM_ROWS, padded))
    rows = np.zeros((2 * chunks + engine.atom_chunks, ROW))
    return GBPlan(
        atoms,
        stages=[
            [Task(pack_atoms, engine.positions, atoms)],
            [Task(kernels.born_radii, chunks, n, atoms, kinds, d0, m0, constants, rows, engine.flags, chunks=chunks)],
            [Task(kernels.pair_terms, chunks, n, atoms, constants, sums, rows, engine.flags, chunks=chunks)],
            [Task(kernels.chain_radii, chunks, n, atoms, sums, chunks=chunks)],
            [Task(kernels.descreening_forces, chunks, n, atoms, kinds, d0, m0, constants, sums, chunks=chunks)],
        ],
        reduce=[
            Task(
                add_forces,
                engine.atom_starts,
                sums,
                engine.positions,
                engine.forces,
                rows,
                2 * chunks,
                engine.flags,
                chunks=engine.atom_chunks,
            )
        ],
        rows=rows,
    )


def _within_cutoff(cutoff, engine, atoms, necks, constants):
    n, listed = engine.n, shared_rows(engine, cutoff)
    chunks = int(np.clip(n // _CHUNK_ATOMS, 1, _MOST_CHUNKS))
    own = chunks, n, cutoff, listed.xs, listed.atoms, listed.counts, listed.rows, atoms
    forces, rows, flags = np.zeros((n, 3)), np.zeros((3 * chunks, ROW)), engine.flags
    return GBPlan(
        atoms,
        stages=[
            [Task(cut_kernels.born_radii, *own, *necks, constants, rows, flags, chunks=chunks)],
            [Task(cut_kernels.pair_terms, *own, constants, forces, rows, flags, chunks=chunks)],
            [Task(cut_kernels.descreening_forces, *own, *necks, constants, forces, rows, flags, chunks=chunks)],
        ],
        reduce=[Task(add_own_forces, engine.atom_starts, forces, engine.forces, chunks=engine.atom_chunks)],
        rows=rows,
        before=listed.before,
    )
