"""Base class of sampling methods, which modify the potential of a simulation and learn on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engine.flags import FORCES_STALE
from ..sealed import Fixed

if TYPE_CHECKING:
    from ..engine.energy_split import EnergySplit
    from ..engine.engine import Engine
    from ..engine.plan import Plan
    from ..engine.program import Phase
    from ..integrators.integrator import Integrator
    from ..system import System

__all__ = ["Sampling"]


class Sampling(Fixed):
    """A method that changes what a simulation samples, such as SITS or metadynamics.

    It belongs to one simulation, which takes it in `sampling`; a frozen bias may move to another one. What it has
    learned stands in its own arrays, at fixed addresses, to which its tasks are bound; its options are attributes whose
    names have no underscore in front, so that checkpoints can tell whether they fit.

    Attributes
    ----------
    name : str
        Name under which the added energy is reported.
    conserves_momentum : bool, optional
        As of `Potential`. None, for a test of the variables' gradients, is the default of methods with `cvs`.
    """

    name: str
    conserves_momentum: bool | None = True
    _engine: Engine | None = None  # of the simulation it belongs to
    _movable = False  # whether it may move to another simulation, as a frozen bias may

    def check(self, system: System, integrator: Integrator) -> None:
        """Take over what depends on the system and the integrator; raise ValueError or a subclass if something does not
        fit.

        Called by the simulation before anything else. That of a subclass begins with this one.
        """
        if self._engine is not None and not self._movable:
            hint = ", or freeze it" if isinstance(type(self)._movable, property) else ""
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: belongs to one simulation, and has one already "
                f"(make another one{hint})"
            )

    def claim(self, engine: Engine) -> None:
        """Belong to the simulation of `engine`; called when nothing of it can fail any more.

        A simulation that it belonged to before cannot run on.
        """
        self._engine = engine

    def _bias_changed(self) -> None:
        """Let the simulation compute forces and energies again, as the bias has changed between two steps."""
        if self._engine is not None:
            self._engine.flags[FORCES_STALE] = 1

    def split(self, engine: Engine) -> EnergySplit | None:
        """Return the parts of the energy that the method scales separately; called before any plan is made."""
        return None

    def plan(self, engine: Engine) -> Plan:
        """Return the tasks that add bias forces to ``engine.forces``; their rows hold energy and virial of the bias.

        A method that scales forces sets ``engine.split.scales`` in a phase of `Plan.after` and adds an energy; the
        engine sees to the virial.

        It must only read what the method has learned: it is made for engines too that look on from the side.
        """
        raise NotImplementedError

    def after_step(self, engine: Engine, integrator: Integrator) -> list[Phase]:
        """Return the tasks that run at the end of each step, such as records and updates of the bias.

        Energies and forces are then those of the positions at the beginning of the step, state number ``flags[STEP]``,
        if ``integrator.forces_at`` is "old", and those of its end, state number ``flags[STEP] + 1``, if it is "new".
        """
        return []

    # -- restarts and walkers ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return everything learned so far, as arrays that do not change later."""
        return {}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to such a state, in place."""

    def news(self) -> dict[str, np.ndarray]:
        """Return what this walker has learned since the last `receive`."""
        raise NotImplementedError(f"{type(self).__name__} cannot be shared by several walkers")

    def receive(self, news: Sequence[dict[str, np.ndarray]]) -> None:
        """Take over what all walkers have learned, own news included, in the order of the walkers."""
        raise NotImplementedError(f"{type(self).__name__} cannot be shared by several walkers")

    def __repr__(self):
        options: dict[str, Any] = {k: v for k, v in vars(self).items() if not k.startswith("_") and k != "name"}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r:.60}' for k, v in options.items())})"
