"""The compiled form of `GB`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from triskele.core.extend import Task

from ... import units
from ...engine.plan import ROW, Plan
from ..dense_kernels import add_forces, pack_atoms
from . import kernels as kernels
from .tables import NECK_CUTOFF

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .gb import GB

_CHUNK_PAIRS = 8000  # pairs of atoms in a chunk: some 50 us
_MOST_CHUNKS = 32


def plan(potential: GB, engine: Engine) -> Plan:
    """Tasks of all stages; results do not depend on `engine.precision`, all is float64."""
    from .gb import PROBE, neck_pair_tables

    params, model, n = potential.params, potential.constants, engine.n
    chunks = int(np.clip(n * n // 2 // _CHUNK_PAIRS, 1, _MOST_CHUNKS))
    padded = -(-n // 8) * 8
    atoms = np.zeros((kernels.ATOM_ROWS, padded))
    rho = params["radii"] - model.offset
    values = {kernels.CHARGE: params["charges"], kernels.RHO: rho, kernels.SCREEN: params["scales"] * rho,
              kernels.RADIUS: params["radii"]}
    if model.rescaling is not None:
        values |= {kernels.ALPHA: params["alpha"], kernels.BETA: params["beta"], kernels.GAMMA: params["gamma"]}
    atoms[[kernels.RHO, kernels.RADIUS, kernels.BORN]] = 0.1  # of padding, for which nothing follows from it
    for row, v in values.items():
        atoms[row, :n] = v
    kinds = np.zeros(padded, np.int64)
    radii, kinds[:n] = np.unique(params["radii"], return_inverse=True)
    d0, m0 = neck_pair_tables(radii) if model.neck else (np.zeros((1, 1)), np.zeros((1, 1)))
    constants = np.zeros(kernels.N_CONSTANTS)
    constants[
        [
            kernels.SOLUTE, kernels.SOLVENT, kernels.KAPPA, kernels.TENSION, kernels.PROBE, kernels.NECK,
            kernels.NECK_CUTOFF, kernels.RESCALED, kernels.COULOMB,
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
    ]
    sums = np.zeros((chunks, kernels.SUM_ROWS, padded))
    rows = np.zeros((2 * chunks + engine.atom_chunks, ROW))
    return Plan(
        stages=[
            [Task(pack_atoms, engine.positions, atoms)],
            [Task(kernels.born_radii, chunks, n, atoms, kinds, d0, m0, constants, rows, engine.flags, chunks=chunks)],
            [Task(kernels.pair_terms, chunks, n, atoms, constants, sums, rows, engine.flags, chunks=chunks)],
            [Task(kernels.chain_radii, chunks, n, atoms, sums, chunks=chunks)],
            [Task(kernels.descreening_forces, chunks, n, atoms, kinds, d0, m0, constants, sums, chunks=chunks)],
        ],
        reduce=[Task(add_forces, engine.atom_starts, sums, engine.positions, engine.forces, rows, 2 * chunks,
                     engine.flags,
                     chunks=engine.atom_chunks)],
        rows=rows,
    )
