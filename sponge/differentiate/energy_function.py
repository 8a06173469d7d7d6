"""`energy_function`: the potential energy of a system as a pure function of parameters, positions and box.

Values and first derivatives come from the compiled kernels in double precision, all of them in one pass. Second
derivatives by parameters and positions, as Hessian-vector products, come from kernels of `Nonbonded` and `GB` and from
compiled pure energies of other potentials; what else is derived (forces by the box, third derivatives) comes from the
pure energies.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import check

from .. import box as boxes
from ..engine.engine import Engine
from ..potential import Potential, complete
from ..potentials.nonbonded.nonbonded import Nonbonded
from ..protocols import SystemLike
from ..virtual_sites.sites import place_all

__all__ = ["EnergyFunction", "energy_function"]


def energy_function(system: SystemLike, names: Iterable[str] | None = None) -> EnergyFunction:
    """The potential energy of `system`, or of some of its potentials, for `core.grad`, `core.jit`, `core.vmap`, ...

    Parameters
    ----------
    system : System
        The function keeps a copy: later changes of the system have no effect on it.
    names : iterable of str, optional
        The potentials. Defaults to all.

    Returns
    -------
    EnergyFunction
        ``energy(params, positions, box=None)`` in kJ/mol.

    Examples
    --------
    >>> from triskele import core, sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.16, 0, 0]])
    >>> _ = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    >>> energy = system.energy_function()
    >>> core.grad(energy)(system.params(), system.positions)["bond"]["r0"].round(6)
    array([-10.])
    """
    return EnergyFunction(system, names)


class EnergyFunction:
    """``energy(params, positions, box=None)``, made by `energy_function`.

    `params` is as from ``system.params()``; potentials and parameters that are left out keep their values. Without a
    box that of the system is used; meshes of `Nonbonded` stay those for the system's box. Virtual sites are placed
    first, so that the derivative by positions is the negative of ``system.forces``. Under `core.vmap` replicas are
    computed one after the other, each with all threads.
    """

    def __init__(self, system: SystemLike, names: Iterable[str] | None = None):
        system.check()
        self._system = copy.copy(system)
        self._system.potentials = [_own_copy(p, system.box) for p in system.potentials]
        if names is not None:
            self._system.potentials = [self._system[name] for name in names]
        self._system._engines = {}
        self._defaults = self._system.params()
        self._calls: dict[tuple[bool, ...], _Call] = {}
        self._compute = _Compute(self._system)

    def __call__(self, params: dict[str, dict[str, Any]], positions: Any, box: Any = None) -> Any:
        """Return the energy in kJ/mol.

        Raise KeyError for an unknown name, ValueError for a wrong shape, BoxError for a box that does not suit the
        potentials.
        """
        system = self._system
        leaves = [
            value
            for values in complete(self._defaults, params, "energy function").values()
            for value in values.values()
        ]
        check.shape(positions, (system.n, 3), "energy function: positions")
        leaves.append(positions)
        if system.box is not None:
            box = check.shape(system.box if box is None else box, (3, 3), "energy function: box")
            leaves.append(box)
        elif box is not None:
            raise ValueError("energy function: the system is not periodic, but a box was given")
        leaves = [x if isinstance(x, core.Tensor) else np.asarray(x, np.float64) for x in leaves]
        wanted = tuple(isinstance(x, core.Tensor) for x in leaves)
        if not any(wanted):
            return _value(*leaves, call=self._call(wanted))
        return _energy(self._call(wanted), *leaves)

    def _call(self, wanted):
        if wanted not in self._calls:
            self._calls[wanted] = _Call(self._compute, wanted)
        return self._calls[wanted]

    def __repr__(self):
        return f"<energy function of {self._system.n} atoms: {', '.join(self._defaults)}>"


def _own_copy(potential: Potential, box: np.ndarray | None) -> Potential:
    new = copy.copy(potential)
    new.params = {name: np.array(values, np.float64) for name, values in potential.params.items()}
    if isinstance(new, Nonbonded) and box is not None:
        new.fix_mesh(box)
    return new


class _Compute:
    """Energy and derivatives at values."""

    def __init__(self, system):
        self.system = system
        self.periodic = system.box is not None
        self.keys = [(p.name, key) for p in system.potentials for key in p.params]
        self._engine: Engine | None = None
        self._pure_gradients: dict[str, Any] = {}
        self._products: dict[tuple[str, str], Any] = {}

    def split(self, leaves):
        """Parameters by potential, positions and box."""
        params: dict[str, dict[str, Any]] = {p.name: {} for p in self.system.potentials}
        for (name, key), leaf in zip(self.keys, leaves):
            params[name][key] = leaf
        return params, leaves[len(self.keys)], leaves[-1] if self.periodic else None

    def pure(self, *leaves):
        """The sum of the potentials' pure energies."""
        params, positions, box = self.split(leaves)
        positions = place_all(self.system.virtual_sites, positions)
        total = 0.0
        for p in self.system.potentials:
            total = total + p.energy(params[p.name], positions, box)
        return total

    def engine(self, params, positions, box) -> Engine:
        """The engine, brought to these parameters, positions and box, with forces, energies and virial."""
        changed = False
        for p in self.system.potentials:
            for key, values in params[p.name].items():
                if not np.array_equal(p.params[key], values):
                    p.params[key] = np.array(values, np.float64)
                    changed = True
        if self.periodic:
            box = boxes.as_box(box, "energy function: box")
        if self._engine is None:
            self.system.positions = np.nan_to_num(positions)  # for plans; infinities and NaN are computed like all else
            if self.periodic:
                self.system.box = box
            self._engine = Engine(self.system, "double")
        elif changed:
            self.system.check()
            self._engine.replan()
        if self.periodic:
            self._engine.fit_meshes(box)
        self._engine.compute(positions, box)
        return self._engine

    def value(self, leaves):
        return sum(self.engine(*self.split(leaves)).energies().values())

    def gradients(self, leaves, wanted):
        """Energy and its derivatives by the wanted leaves."""
        params, positions, box = self.split(leaves)
        engine = self.engine(params, positions, box)
        energy = sum(engine.energies().values())
        found = []
        by_params: dict[str, dict[str, np.ndarray]] = {}
        for (name, key), w in zip(self.keys, wanted):
            if w:
                if name not in by_params:
                    by_params[name] = self._by_params(name, engine)
                found.append(by_params[name][key])
        n = len(self.keys)
        if wanted[n]:
            found.append(-engine.forces)
        if self.periodic and wanted[-1]:
            # under a strain e of positions and box, x (1 + e), the energy changes by sum e_ab (x^T dE/dx + box^T
            # dE/dbox)_ab = -W_ba
            strain = -engine.virial().T + engine.positions.T @ engine.forces
            found.append(np.linalg.solve(np.asarray(box).T, strain))
        return (np.asarray(energy), *found)

    def product(self, leaves, wanted, vector):
        """The Hessian by the wanted leaves, parameters and positions, times `vector`: from kernels of the potentials
        that have some, else compiled from the pure energies.
        """
        params, positions, box = self.split(leaves)
        given = iter(vector)
        moves = [next(given) if w else None for w in wanted]
        v = moves[len(self.keys)]
        total = np.zeros_like(positions)
        by_params = {}
        for p in self.system.potentials:
            own = {key: move for (name, key), move in zip(self.keys, moves) if name == p.name and move is not None}
            if own:
                still = np.zeros_like(positions) if v is None else v
                every = {key: own.get(key, np.zeros_like(values)) for key, values in params[p.name].items()}
                by_params[p.name], more = self._product(p, "parameter_product")(
                    params[p.name], positions, box, every, still
                )
                total += more
            elif v is not None:
                total += self._product(p, "hessian_product")(params[p.name], positions, box, v)
        found = [by_params[name][key] for (name, key), w in zip(self.keys, wanted) if w]
        return (*found, total) if v is not None else tuple(found)

    def _product(self, potential, kind):
        """A product of a potential by its kernels, or compiled from its pure energy."""
        if hasattr(potential, kind):
            return getattr(potential, kind)
        key = potential.name, kind
        if key not in self._products:
            self._products[key] = core.jit(partial(_PURE[kind], potential.energy))
        return self._products[key]

    def _by_params(self, name, engine):
        """Derivatives of a potential's energy by its parameters: from kernels if it has some, else from its pure
        energy.
        """
        potential = self.system[name]
        compiled = getattr(potential, "param_gradients", None)
        found = compiled(engine) if compiled is not None else None
        if found is None:
            if name not in self._pure_gradients:
                self._pure_gradients[name] = core.jit(core.grad(potential.energy))
            found = self._pure_gradients[name](
                potential.params, engine.positions, engine.box if self.periodic else None
            )
        return found


def _hessian_product(energy, params, positions, box, v):
    return core.hvp(lambda x: energy(params, x, box), (positions,), (v,))


def _parameter_product(energy, params, positions, box, moves, v):
    return core.hvp(lambda params, x: energy(params, x, box), (params, positions), (moves, v))


_PURE: dict[str, Any] = {"hessian_product": _hessian_product, "parameter_product": _parameter_product}


class _Call:
    """A `_Compute` and the leaves whose derivatives are wanted: a fixed option of the operators."""

    def __init__(self, compute, wanted):
        self.compute, self.wanted = compute, wanted
        self.has_products = not (compute.periodic and wanted[-1]) and not compute.system.virtual_sites

    def some(self, leaves):
        """The wanted leaves."""
        return [x for x, w in zip(leaves, self.wanted) if w]

    def merged(self, leaves, some):
        """All leaves, with `some` in place of the wanted ones."""
        rest = iter(some)
        return [next(rest) if w else x for x, w in zip(leaves, self.wanted)]

    def every(self, found):
        """One value for each leaf: those found for wanted leaves, None for others."""
        rest = iter(found)
        return tuple(next(rest) if w else None for w in self.wanted)

    def pure_product(self, leaves, vector):
        """The Hessian by the wanted leaves times `vector`, from the pure energies."""

        def energy(*some):  # leaves that are not wanted are constants to all derivatives
            return self.compute.pure(*self.merged(leaves, some))

        def gradient(*some):
            return core.vjp(energy, *some)[1](np.ones(()))

        return core.vjp(gradient, *self.some(leaves))[1](tuple(vector))

    def second(self, leaves, vector):
        """The Hessian by the wanted leaves times `vector`."""
        if self.has_products:
            return _products(*leaves, *vector, call=self)
        return self.pure_product(leaves, vector)


@core.custom_op(out=lambda *specs, call: core.spec(()), mode="python", batch="sequential")
def _value(*leaves, call):
    return np.asarray(call.compute.value(leaves))


@core.custom_op(out=lambda *specs, call: (core.spec(()), *call.some(specs)), mode="python", batch="sequential")
def _gradients(*leaves, call):
    return call.compute.gradients(leaves, call.wanted)


@_gradients.vjp
def _(cotangents, outs, *leaves, call):
    ct_energy, *ct_gradients = cotangents
    second = call.second(leaves, ct_gradients)
    return call.every([ct_energy * own + more for own, more in zip(outs[1:], second, strict=True)])


@_gradients.jvp
def _(tangents, outs, *leaves, call):
    vector = call.some(tangents)
    return sum(np.sum(own * t) for own, t in zip(outs[1:], vector, strict=True)), *call.second(leaves, vector)


@core.custom_op(out=lambda *specs, call: tuple(call.some(specs)), mode="python", batch="sequential")
def _products(*args, call):
    leaves, vector = args[: len(call.wanted)], args[len(call.wanted) :]
    return call.compute.product(leaves, call.wanted, vector)


@_products.vjp
def _(cts, _, *args, call):
    leaves, vector = args[: len(call.wanted)], args[len(call.wanted) :]
    some = call.some(leaves)

    def product(*some_and_vector):  # third derivatives come from the pure energies
        merged = call.merged(leaves, some_and_vector[: len(some)])
        return tuple(call.pure_product(merged, some_and_vector[len(some) :]))

    found = core.vjp(product, *some, *vector)[1](tuple(cts))
    return *call.every(found[: len(some)]), *found[len(some) :]


@partial(core.custom_vjp, nondiff_argnums=(0,))
def _energy(call, *leaves):
    return _value(*leaves, call=call)


def _forward(call, *leaves):
    energy, *gradients = _gradients(*leaves, call=call)
    return energy, gradients


def _backward(call, gradients, ct):
    return call.every([ct * own for own in gradients])


_energy.defvjp(_forward, _backward)
