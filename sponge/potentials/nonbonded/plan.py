"""The compiled form of `Nonbonded`: which kernels its method needs, and their arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task

from ... import box as boxes
from ... import units
from ...engine.energy_split import REST, SOLUTE
from ...engine.plan import ROW, Plan, add_forces
from ...engine.program import Phase
from ...neighbors import shared_list
from ...neighbors.state import BUILDS
from ...pme.ewald import Ewald
from ...pme.mesh import PME
from ...pme.split import SplitPME
from ..pairs import dense as dense
from ..pairs.dense import masks
from .energy import jump_at_cutoff, long_range_dispersion
from .exclusion_kernels import by_first_atom, excluded_pairs, field_of_excluded, polynomials
from .forms import PairForm, plan_pairs

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .nonbonded import Nonbonded

__all__ = ["NonbondedPlan", "plan"]

_CHUNK_PAIRS = 16000  # of all pairs: some 30 us
_MOST_CHUNKS = 32


class NonbondedPlan(Plan):
    """Several plans as one: pairs within the cut-off, excluded pairs, reciprocal sums and the tail."""

    def __init__(
        self,
        pairs: Any,
        form: PairForm,
        parts: list[Any],
        coulomb: PME | Ewald | None,
        dispersion: PME | None,
        update_box: list[Callable[[], None]],
        jump: float,
    ):
        self.pairs, self.form, self.coulomb, self.dispersion = pairs, form, coulomb, dispersion
        self.parts = [pairs, *parts]
        tasks = [t for m in (coulomb, dispersion) if m is not None for t in m.before]
        self._mesh_sort = [Phase(tasks, name="mesh sort")] if tasks else []

        def update_all():
            for update in update_box:
                update()

        super().__init__(
            stages=_stages(self.parts),
            reduce=[t for p in self.parts for t in p.reduce],
            rows=pairs.rows,
            update_box=update_all,
            before=[*pairs.before, *self._mesh_sort],
            jump=jump,
        )
        self.classes = [k for p in self.parts for k in getattr(p, "classes", ()) or [REST] * len(p.reduce)]
        self.enhanced = [e for p in self.parts for e in getattr(p, "enhanced", ())]
        self.after = [phase for p in self.parts for phase in getattr(p, "after", ())]

    def set_charges(self, charges: np.ndarray) -> None:
        """Take new charges (e), from the next building of the neighbor list on."""
        if "charge" in self.form.parameters:
            self.pairs.values[:, self.form.parameters.index("charge")] = np.sqrt(units.COULOMB / 8) * charges
        for part in self.parts:
            if isinstance(part, ExclusionPlan):
                part.charges[:] = np.sqrt(units.COULOMB) * charges
        if self.coulomb is not None:
            self.coulomb.update_charges(charges)

    def totals(self) -> np.ndarray:
        """Energy and virial [10] of all parts; `rows` are those of the pairs."""
        return np.sum([p.rows.sum(axis=0) for p in self.parts], axis=0)

    def split(self) -> dict[str, Plan]:
        """Pairs within the cut-off, and the reciprocal sums. These include the correction of excluded pairs, without
        which they would change as fast as bonds.
        """
        if self.coulomb is None and self.dispersion is None:
            return {}
        pairs, *rest = self.parts
        return {
            "direct": Plan(stages=pairs.stages, reduce=pairs.reduce, before=pairs.before),
            "reciprocal": Plan(
                stages=_stages(rest), reduce=[t for p in rest for t in p.reduce], before=self._mesh_sort
            ),
        }


def _stages(parts):
    deepest = max(len(p.stages) for p in parts)
    return [[t for p in parts if k < len(p.stages) for t in p.stages[k]] for k in range(deepest)]


def plan(potential: Nonbonded, engine: Engine) -> Plan:
    """Tasks and arrays for `engine`."""
    if potential.method == "none":
        return _all_pairs(potential, engine)
    params = potential.params
    form = potential.form(engine.first_box if engine.periodic else None)
    charged = bool(np.any(params["charges"]))
    coulomb = {"reaction_field": "reaction_field", "cutoff": "cutoff"}.get(form.method, "ewald") if charged else "none"
    table = None
    if form.mixing == "table":
        table = 0.5 * (params["a"] + params["a"].T), 0.5 * (params["b"] + params["b"].T)
    pair_form = PairForm(
        form.mixing,
        coulomb,
        form.cutoff,
        engine.precision == "double",
        switch=form.switch,
        modifier=form.modifier,
        alpha=form.alpha,
        k_rf=form.k_rf,
        c_rf=form.c_rf,
        dispersion_alpha=form.lj_alpha or None,
        table=table,
    )
    pairs = plan_pairs(
        engine,
        pair_form,
        charges=params["charges"],
        sigmas=params.get("sigmas"),
        epsilons=params.get("epsilons"),
        types=potential.types,
    )
    parts, updates = [], []
    split = engine.split if engine.split is not None and engine.split.reciprocal else None
    as_solute = split is not None and split.whole
    whole: Any = split.always if split is not None and split.whole else engine  # for reciprocal sums
    mesh: Any = PME if split is None or as_solute else SplitPME
    coulomb_sum: PME | Ewald | None = None
    dispersion_sum: PME | None = None
    if form.alpha and (charged or form.lj_alpha):
        roots = 2 * np.sqrt(params["epsilons"]) * params["sigmas"] ** 3 if form.lj_alpha else np.zeros(0)
        parts += _exclusions(potential, engine, form, roots, split)
        if form.method == "ewald":
            if split is not None and not as_solute:
                raise ValueError("energy split: the reciprocal part of method 'ewald' cannot be split (use 'pme')")
            coulomb_sum = Ewald(whole, params["charges"], form.alpha, form.wave_vectors)
        else:
            builds = shared_list(engine, form.cutoff).state[BUILDS : BUILDS + 1]
            if charged:
                coulomb_sum = mesh(whole, params["charges"], form.alpha, form.grid, form.order, builds=builds)
            if form.lj_alpha:
                dispersion_sum = mesh(
                    whole, roots, form.lj_alpha, form.lj_grid, form.order, dispersion=True, builds=builds
                )
        sums = [s for s in (coulomb_sum, dispersion_sum) if s is not None]
        parts += [_of_solute(Plan(stages=s.stages, reduce=s.reduce, rows=s.rows)) for s in sums] if as_solute else sums
        updates += [s.update_box for s in sums]
    if form.excluded_field and charged:
        if split is not None:
            raise ValueError("energy split: the excluded_field of a reaction field cannot be split (use 'pme')")
        parts.append(_excluded_field(potential, engine, form))
    jump = 0.0
    if form.dispersion:
        tail = Plan()
        amount = float(long_range_dispersion(form, params, potential.types))

        def update():
            tail.rows[0, [0, 1, 5, 9]] = amount / boxes.volume(engine.box)

        update()
        parts.append(_of_solute(tail) if split is not None and split.everything else tail)
        jump = jump_at_cutoff(form, params, potential.types)
        updates.append(update)
    return NonbondedPlan(pairs, pair_form, parts, coulomb_sum, dispersion_sum, updates, jump)


def _of_solute(part):
    part.classes, part.enhanced = [SOLUTE] * len(part.reduce), [(SOLUTE, part.rows)]
    return part


def _exclusions(potential, engine, form, roots, split):
    pairs = potential.exclusions
    if split is None:
        return [_excluded(potential, engine, form, roots, pairs)]
    classes, parts = split.solute[pairs].sum(1), []
    for k in range(3):
        part = _excluded(potential, split.always if k else engine, form, roots, pairs[classes == k])
        part.classes, part.enhanced = [k] * len(part.reduce), [(k, part.rows)] * (k > 0)
        parts.append(part)
    return parts


def _excluded(potential, engine, form, roots, pairs):
    starts, partners, atoms = by_first_atom(pairs, engine.n)
    chunks = len(atoms) - 1
    forces, rows = np.zeros((engine.n, 3)), np.zeros((chunks, ROW))
    charges = np.sqrt(units.COULOMB) * potential.params["charges"]
    box = engine.box if form.images else np.diag([1e30] * 3)  # in which no difference is longer than half an edge
    task = Task(
        excluded_pairs,
        atoms,
        starts,
        partners,
        engine.positions,
        charges,
        roots,
        box,
        form.alpha,
        form.lj_alpha,
        polynomials(),
        forces,
        rows,
        engine.flags,
        chunks=chunks,
    )
    add = Task(add_forces, engine.atom_starts, forces, engine.forces, chunks=engine.atom_chunks)
    some = len(partners) > 0
    return ExclusionPlan(charges, stages=[[task]] * some, rows=rows, reduce=[add] * some)


def _excluded_field(potential, engine, form):
    starts, partners, atoms = by_first_atom(potential.exclusions, engine.n)
    chunks = len(atoms) - 1
    forces, rows = np.zeros((engine.n, 3)), np.zeros((chunks, ROW))
    charges = np.sqrt(units.COULOMB) * potential.params["charges"]
    box = engine.box if form.images and engine.periodic else np.diag([1e30] * 3)
    numbers = form.k_rf, form.c_rf, form.cutoff**2
    places = atoms, starts, partners, engine.positions
    task = Task(field_of_excluded, *places, charges, box, *numbers, forces, rows, engine.flags, chunks=chunks)
    add = Task(add_forces, engine.atom_starts, forces, engine.forces, chunks=engine.atom_chunks)
    return ExclusionPlan(charges, stages=[[task]], rows=rows, reduce=[add])


class ExclusionPlan(Plan):
    """The correction of excluded pairs, and the charges (sqrt(kJ/mol nm)) that it reads."""

    def __init__(self, charges: np.ndarray, **parts: Any):
        super().__init__(**parts)
        self.charges = charges


def _all_pairs(potential, engine):
    params, n = potential.params, engine.n
    chunks = int(np.clip(n * n // 2 // _CHUNK_PAIRS, 1, _MOST_CHUNKS))
    padded = -(-n // 8) * 8
    atoms = np.zeros((dense.PAIR_ROWS, padded))
    atoms[dense.CHARGE, :n] = np.sqrt(units.COULOMB) * params["charges"]
    kinds, a, b = np.zeros(padded, np.int64), np.zeros((1, 1)), np.zeros((1, 1))
    if potential.mixing == "table":
        mixing = dense.TABLE
        kinds[:n] = potential.types
        a, b = 0.5 * (params["a"] + params["a"].T), 0.5 * (params["b"] + params["b"].T)
    else:
        arithmetic = potential.mixing == "lorentz_berthelot"
        mixing = dense.ARITHMETIC if arithmetic else dense.GEOMETRIC
        atoms[dense.SIZE, :n] = 0.5 * params["sigmas"] if arithmetic else np.sqrt(params["sigmas"])
        atoms[dense.DEPTH, :n] = 2 * np.sqrt(params["epsilons"])
    masked, blocks, bits = masks(potential.exclusions, n)
    sums = np.zeros((chunks, 3, padded))
    rows = np.zeros((chunks + engine.atom_chunks, ROW))
    return Plan(
        stages=[
            [Task(dense.pack_atoms, engine.positions, atoms)],
            [
                Task(
                    dense.all_pairs,
                    chunks,
                    n,
                    atoms,
                    mixing,
                    kinds,
                    a,
                    b,
                    masked,
                    blocks,
                    bits,
                    sums,
                    rows,
                    engine.flags,
                    chunks=chunks,
                )
            ],
        ],
        reduce=[
            Task(
                dense.add_forces,
                engine.atom_starts,
                sums,
                engine.positions,
                engine.forces,
                rows,
                chunks,
                engine.flags,
                chunks=engine.atom_chunks,
            )
        ],
        rows=rows,
    )
