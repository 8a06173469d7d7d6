"""`Evaluation`: collective variables, their gradients and the forces of a bias on them, inside the step loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele import core
from triskele.core.extend import Task

from ..engine.flags import STEP
from ..engine.jit_task import JitTask
from ..engine.plan import ROW, Plan
from .kernels import finish, spread
from .variable import CollectiveVariable, VariableError

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["Evaluation", "status_code"]

_FIRST_STATUS = 1000
_codes: dict[str, int] = {}


def status_code(what: str) -> int:
    """A status of kernels for `what`, shared by all engines of the process."""
    return _codes.setdefault(what, _FIRST_STATUS + len(_codes))


class Evaluation:
    """Collective variables of one engine, and a bias on them.

    One task computes everything from a copy of the few atoms that matter. A bias that is not given as a function is put
    into `bias` and `slopes` by tasks between `first` and `last`.
    """

    def __init__(
        self,
        engine: Engine,
        cvs: Sequence[CollectiveVariable],
        where: str,  # begins error messages; different for every bias of a system
        energy: Callable | None = None,  # energy(s1, s2, ..., *leaves) -> bias in kJ/mol
        leaves: Sequence[np.ndarray] = (),
    ):  # held by address
        self.engine, self.cvs, self.where = engine, list(cvs), where
        m = len(self.cvs)
        self._atoms = np.concatenate([v.atoms for v in self.cvs]).astype(np.int64)
        self._owners = np.repeat(np.arange(m), [len(v.atoms) for v in self.cvs]).astype(np.int64)
        # the slopes are derivatives of the bias (kJ/mol) by the variables
        self.values, self.slopes, self.bias = np.zeros(m), np.zeros(m), np.zeros(())
        self.gradients = np.zeros((len(self._atoms), 3))  # of the variables, in order, by the positions of their atoms
        self._by_box = np.zeros((m if engine.periodic else 0, 3, 3))
        self.rows = np.zeros((1, ROW))
        outputs = [self.values, self.gradients]
        outputs += [self._by_box] if engine.periodic else []
        outputs += [self.bias, self.slopes] if energy else []
        self._native, found = self._native_tasks()
        inputs = [engine.positions, *([engine.box] if engine.periodic else []), *found, *leaves]
        self.first = JitTask(_function(self.cvs, engine.periodic, energy, where), engine, inputs, outputs)
        code = status_code(f"{where}: undefined")
        engine.on_status(code, self._explain)
        self.last = Task(
            finish,
            engine.flags,
            code,
            engine.positions,
            engine.box,
            self.values,
            self.gradients,
            self._by_box,
            self._owners,
            self._atoms,
            self.slopes,
            self.bias,
            self.rows,
        )

    def _native_tasks(self) -> tuple[list[Task], list[np.ndarray]]:
        """The tasks of variables that have a compiled form, and the values and gradients that these fill, if any."""
        own = [v for v in self.cvs if v.native is not None]
        if not own:
            return [], []
        values, gradients = np.zeros(len(own)), np.zeros((sum(len(v.atoms) for v in own), 3))
        groups: list[tuple[Any, dict[str, tuple[int, int]]]] = []
        first = 0
        for at, variable in enumerate(own):
            form, part = variable.native  # type: ignore[misc]
            wanted = next((w for f, w in groups if f is form and part not in w), None)
            if wanted is None:
                wanted = {}
                groups.append((form, wanted))
            wanted[part] = at, first
            first += len(variable.atoms)
        return [form.task(w, self.engine.positions, values, gradients) for form, w in groups], [values, gradients]

    def plan(self, *between: Task) -> Plan:
        """The plan of the bias; `between` are tasks that set `bias` and `slopes`."""
        engine = self.engine
        order = np.argsort(self._atoms, kind="stable").astype(np.int64)
        first = np.searchsorted(self._atoms[order], engine.atom_starts).astype(np.int64)
        reduce = Task(
            spread,
            first,
            order,
            self._owners,
            self._atoms,
            self.gradients,
            self.slopes,
            engine.forces,
            chunks=engine.atom_chunks,
        )
        stages: list[list[Any]] = [[self.first], *([t] for t in between), [self.last]]
        if self._native:
            stages.insert(0, list(self._native))
        return Plan(stages=stages, reduce=[reduce], rows=self.rows)

    def at_step(self) -> str:
        """Describe the position in the run."""
        return f"at step {self.engine.flags[STEP]}"

    def _explain(self, engine) -> bool:
        describe = engine.system.topology.describe
        for c, variable in enumerate(self.cvs):
            gradient = self.gradients[self._owners == c]
            if np.isfinite(self.values[c]) and np.isfinite(gradient).all():
                continue
            atoms = ", ".join(describe(a) for a in variable.atoms[:6]) + ("" if len(variable.atoms) <= 6 else ", ...")
            if not np.isfinite(engine.positions[variable.atoms]).all():
                raise VariableError(
                    f"{self.where}: positions must be finite for {variable.name}, {self.at_step()} ({atoms})"
                )
            hint = f": it does not exist {variable.undefined}" if variable.undefined else ""
            raise VariableError(
                f"{self.where}: {variable.name} must have a gradient, got value {self.values[c]:g} and "
                f"a gradient that is not finite {self.at_step()}{hint} ({atoms})"
            )
        at = ", ".join(f"{v.name} = {s:g}" for v, s in zip(self.cvs, self.values))
        raise VariableError(
            f"{self.where}: the bias and its slopes must be finite, got {self.bias} and "
            f"{self.slopes.tolist()} {self.at_step()}, where {at}"
        )


def _function(cvs: list[CollectiveVariable], periodic: bool, energy: Callable | None, name: str) -> Callable:
    """The function that the core compiles: positions, box (if any), what native tasks have found (if there are any) and
    leaves -> the arrays of an `Evaluation`.
    """
    native = any(v.native is not None for v in cvs)

    def evaluate(positions: Any, *rest: Any) -> list[Any]:
        box, leaves = (rest[0], rest[1:]) if periodic else (None, rest)
        (known, slopes_known), leaves = (leaves[:2], leaves[2:]) if native else ((None, None), leaves)
        values, by_position, by_box = [], [], []
        at = first = 0
        for variable in cvs:
            if variable.native is not None:
                values.append(known[at])
                by_position.append(slopes_known[first : first + len(variable.atoms)])
                by_box.append(np.zeros((3, 3)))  # positions alone
                at, first = at + 1, first + len(variable.atoms)
                continue
            x = positions[variable.atoms]
            if periodic:
                value, (dx, db) = core.value_and_grad(variable.local, (0, 1))(x, box)
                by_box.append(db)
            else:
                value, dx = core.value_and_grad(variable.local)(x)
            values.append(value)
            by_position.append(dx)
        found = [np.stack(values), np.concatenate(by_position)]
        if periodic:
            found.append(np.stack(by_box))
        if energy is not None:
            bias, slopes = core.value_and_grad(lambda s: energy(*(s[k] for k in range(len(cvs))), *leaves))(found[0])
            found += [bias, slopes]
        return found

    evaluate.__name__ = name
    return evaluate
