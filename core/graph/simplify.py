"""Rewriting graphs to smaller ones that compute the same: constants, common subexpressions, algebra, dead code.

Rules keep NumPy's results: nothing that could change a NaN, an infinity or the sign of a zero is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import kind_of, spelled
from .graph import Const, Equation, Graph, Var
from .primitive import PRIMITIVES
from .trace import dead_code

__all__ = ["LOOPS", "Rewriter", "scalar", "simplify"]

FOLD_SIZE = 4096  # elements of a constant that is computed at compile time
UNIFORM_SIZE = 1 << 22  # elements of a constant that is looked through for being one value
RULES: dict[str, Callable[..., Any]] = {}
"""By primitive: ``rule(rewriter, eqn) -> atom`` for an equation with rewritten inputs; None leaves it as it is."""


LOOPS: dict[str, Callable[..., Any]] = {}
"""By primitive with several results: ``rule(rewriter, primitive, inputs, params, specs, source) -> atoms``, or None."""


def simplify(graph: Graph) -> Graph:
    """Return a simplified copy of `graph`, with calls of graphs written out."""
    r = Rewriter()
    outputs = r.run(graph, {v: v for v in graph.inputs})
    return dead_code(Graph(graph.inputs, r.equations, outputs, graph.name))


def rule(*names: str):
    def register(f):
        for name in names:
            RULES[name] = f
        return f

    return register


def param_key(value: Any) -> Any:
    """A hashable stand-in for a parameter: equal for equal values, by identity where nothing better is known."""
    if isinstance(value, np.ndarray):
        return ("array", value.shape, spelled(value.dtype), value.tobytes())
    if isinstance(value, (tuple, list)):
        return tuple(map(param_key, value))
    if isinstance(value, dict):
        return tuple(sorted((k, param_key(v)) for k, v in value.items()))
    try:
        hash(value)
    except TypeError:
        return ("id", id(value))
    return (type(value), value)


class Rewriter:
    """Emits simplified equations, each at most once."""

    def __init__(self):
        self.equations: list[Equation] = []
        self.producer: dict[Var, Equation] = {}
        self._seen: dict[Any, list[Var]] = {}
        self._uniform: dict[int, tuple[Any, np.ndarray]] = {}

    def run(self, graph: Graph, env: dict[Var, Any]) -> list[Any]:
        """Rewrite the equations of `graph`; returns its outputs."""
        for eqn in graph.equations:
            inputs = [env[a] if isinstance(a, Var) else self._constant(a) for a in eqn.inputs]
            outs = self.equation(eqn.primitive, inputs, eqn.params, [o.spec for o in eqn.outputs], eqn.source)
            env.update(zip(eqn.outputs, outs, strict=True))
        return [env[o] if isinstance(o, Var) else o for o in graph.outputs]

    def _constant(self, atom: Const) -> Any:
        """An array with one value throughout becomes a stretched scalar."""
        value = atom.value
        if not isinstance(value, np.ndarray) or value.size < 2 or value.size > UNIFORM_SIZE:
            return atom
        found = self._uniform.get(id(value))
        if found is None:
            first = value[(0,) * value.ndim]
            same_value = not any(value.strides) or (
                bool((value == first).all()) and bool((np.signbit(np.real(value)) == np.signbit(np.real(first))).all())
            )
            result = self.apply("broadcast_to", Const(first), shape=value.shape) if same_value else atom
            found = self._uniform[id(value)] = (result, value)  # the array is kept, its id stays its own
        return found[0]

    def equation(self, primitive, inputs, params, specs, source) -> list[Any]:
        """Outputs of ``primitive(*inputs, **params)``, simplified."""
        if primitive.kind == "call":
            inner = params["graph"]
            return self.run(inner, dict(zip(inner.inputs, inputs, strict=True)))
        if (
            primitive.name in LOOPS
            and (rewritten := LOOPS[primitive.name](self, primitive, inputs, params, specs, source)) is not None
        ):
            return rewritten
        return self.add(primitive, inputs, params, specs, source)

    def add(self, primitive, inputs, params, specs, source) -> list[Any]:
        """As `equation`, for what is neither a call nor a loop to be rewritten."""
        if primitive.kind == "elementwise":
            inputs = self._unbroadcast(inputs, specs[0].shape)
        outs = [Var(s) for s in specs]
        eqn = Equation(primitive, inputs, params, outs, source)
        if len(outs) == 1:
            found = self._folded(eqn)
            if found is None and (r := RULES.get(primitive.name)) is not None:
                found = r(self, eqn)
            if found is not None:
                return [found]
        key = (primitive, tuple([self._atom_key(a) for a in inputs]), param_key(params), tuple([s.weak for s in specs]))
        seen = self._seen.get(key)
        if seen is not None:
            return seen
        self._seen[key] = outs
        self.equations.append(eqn)
        for o in outs:
            self.producer[o] = eqn
        return outs

    def apply(self, name: str, *inputs: Any, source: Any = None, **params: Any) -> Any:
        """The single output of a primitive on atoms."""
        p = PRIMITIVES[name]
        return self.equation(p, list(inputs), params, [p.spec(*[a.spec for a in inputs], **params)], source)[0]

    @staticmethod
    def _atom_key(a):
        if isinstance(a, Var):
            return a
        value = np.asarray(a.value)
        return (a.spec, value.tobytes()) if value.size <= 16 else id(a.value)

    def made_by(self, atom: Any, *names: str) -> Equation | None:
        """The equation that makes `atom`, if it is one of these primitives."""
        eqn = self.producer.get(atom) if isinstance(atom, Var) else None
        return eqn if eqn is not None and eqn.primitive.name in names else None

    def _folded(self, eqn):
        """The constant an equation of constants computes."""
        if not eqn.inputs or not all(type(a) is Const for a in eqn.inputs) or eqn.outputs[0].spec.size > FOLD_SIZE:
            return None
        spec = eqn.outputs[0].spec
        if spec.size > 64 and spec.size > max(a.spec.size for a in eqn.inputs):
            return None  # a stretched scalar costs nothing, an array does
        if eqn.primitive.kind not in ("elementwise", "pull", "reshape", "reduce", "contract", "update"):
            return None
        try:
            with np.errstate(all="ignore"):
                value = eqn.primitive.impl(*[scalar(a) for a in eqn.inputs], **eqn.params)
        except Exception:  # noqa: BLE001  what fails now is to fail when the program runs, as it would without jit
            return None
        array = np.asarray(value).astype(spec.dtype, copy=True)
        return Const(array[()].item() if spec.weak else array if spec.shape else array[()], spec)

    def _unbroadcast(self, inputs, shape):
        """Operands without stretching that broadcasting does anyway."""
        out = list(inputs)
        for k, a in enumerate(inputs):
            made = self.made_by(a, "broadcast_to")
            if made is None:
                continue
            source = made.inputs[0]
            others = [b.spec.shape for j, b in enumerate(out) if j != k]
            if np.broadcast_shapes(source.spec.shape, *others) == shape and not source.spec.weak:
                out[k] = source
        return out


def scalar(atom: Const) -> Any:
    """A constant as eager code has it: Python numbers where weak, NumPy scalars where of shape ()."""
    v = atom.value
    if atom.spec.weak:
        return np.asarray(v).item() if not isinstance(v, (int, float, complex, bool)) else v
    return v if isinstance(v, np.generic) else np.asarray(v, atom.spec.dtype)[()] if atom.spec.shape == () else v


def number(atom: Any) -> Any:
    """The value of a constant with one value, else None."""
    if type(atom) is not Const:
        return None
    value = np.asarray(atom.value)
    return value.reshape(-1)[0].item() if value.size == 1 else None


def same(eqn: Equation, atom: Any) -> Any:
    """`atom` if it can stand for the equation's output."""
    a, b = atom.spec, eqn.outputs[0].spec
    return atom if a.shape == b.shape and a.dtype == b.dtype and a.weak == b.weak else None


@rule("likelihood")
def _(r, eqn):
    return eqn.inputs[0]  # a mark for derivatives, and for those who read graphs


@rule("add")
def _(r, eqn):
    for x, y in (eqn.inputs, eqn.inputs[::-1]):
        zero = number(y)
        if zero == 0 and (x.spec.dtype.kind in "iu" or np.signbit(np.real(zero))):  # x + 0.0 turns -0.0 into 0.0
            return same(eqn, x)
    return None


@rule("subtract")
def _(r, eqn):
    x, y = eqn.inputs
    zero = number(y)
    if zero == 0 and kind_of(x.spec.dtype) in "iuf" and not np.signbit(zero):
        return same(eqn, x)
    return None


@rule("multiply")
def _(r, eqn):
    for x, y in (eqn.inputs, eqn.inputs[::-1]):
        one = number(y)
        if one == 1 and (found := same(eqn, x)) is not None:
            return found
        if (
            one == -1
            and kind_of(x.spec.dtype) in "if"
            and x.spec.dtype == eqn.outputs[0].spec.dtype
            and x.spec.shape == eqn.outputs[0].spec.shape
        ):
            return r.equation(PRIMITIVES["negative"], [x], {}, [eqn.outputs[0].spec], eqn.source)[0]
    return None


@rule("divide")
def _(r, eqn):
    x, y = eqn.inputs
    d = number(y)
    if d == 1:
        return same(eqn, x)
    if type(d) is float and d and np.isfinite(d) and kind_of(eqn.outputs[0].spec.dtype) == "f":
        mantissa, exponent = np.frexp(d)
        if abs(mantissa) == 0.5 and abs(int(exponent)) < 100:  # a power of two: its reciprocal is exact
            return (
                r.equation(
                    PRIMITIVES["multiply"],
                    [x, Const(1 / d, y.spec) if y.spec.shape == () else y],
                    {},
                    [eqn.outputs[0].spec],
                    eqn.source,
                )[0]
                if y.spec.shape == ()
                else None
            )
    return None


@rule("negative")
def _(r, eqn):
    made = r.made_by(eqn.inputs[0], "negative")
    return same(eqn, made.inputs[0]) if made is not None else None


@rule("power")
def _(r, eqn):
    x, n = eqn.inputs[0], number(eqn.inputs[1])
    out = eqn.outputs[0].spec
    if (
        x.spec.dtype != out.dtype
        or x.spec.shape != out.shape
        or kind_of(out.dtype) not in "fc"
        or isinstance(n, complex)
        or n is None
    ):
        return None
    if n == 1:
        return same(eqn, x)
    if n == 0.5 and kind_of(out.dtype) == "f":
        if out.shape:
            return r.apply("sqrt", x, source=eqn.source)
        # NumPy's scalars are C's numbers: the root of -inf is inf, and that of -0.0 is 0.0
        zero, least, most = (Const(out.dtype.type(v)) for v in (0.0, -np.inf, np.inf))
        root = r.apply("sqrt", r.apply("add", x, zero, source=eqn.source), source=eqn.source)
        return r.apply("select", r.apply("equal", x, least, source=eqn.source), most, root, source=eqn.source)
    if n == int(n) and -8 <= n <= 8 and n:
        return r.equation(PRIMITIVES["integer_power"], [x], {"exponent": int(n)}, [out], eqn.source)[0]
    return None


@rule("integer_power")
def _(r, eqn):
    return same(eqn, eqn.inputs[0]) if eqn.params["exponent"] == 1 else None


@rule("select")
def _(r, eqn):
    c, x, y = eqn.inputs
    if x is y:
        return same(eqn, x)
    known = number(c)
    return None if known is None else same(eqn, x if known else y)


@rule("convert")
def _(r, eqn):
    x, dtype = eqn.inputs[0], eqn.params["dtype"]
    if x.spec.dtype == dtype and not x.spec.weak:
        return same(eqn, x)
    made = r.made_by(x, "convert")
    if made is not None:
        origin = made.inputs[0]
        if (
            not origin.spec.weak
            and kind_of(origin.spec.dtype) == kind_of(x.spec.dtype) == kind_of(np.dtype(dtype))
            and np.can_cast(origin.spec.dtype, x.spec.dtype)
        ):
            return r.apply("convert", origin, source=eqn.source, dtype=dtype)
    return None


@rule("transpose")
def _(r, eqn):
    x, axes = eqn.inputs[0], eqn.params["axes"]
    made = r.made_by(x, "transpose")
    if made is not None:
        return r.apply("transpose", made.inputs[0], source=eqn.source, axes=tuple(made.params["axes"][a] for a in axes))
    if list(axes) == sorted(axes):
        return same(eqn, x)
    shape = x.spec.shape
    if [a for a in axes if shape[a] != 1] == [a for a in range(len(shape)) if shape[a] != 1]:
        return r.apply("reshape", x, source=eqn.source, shape=eqn.outputs[0].spec.shape)
    return None


@rule("reshape")
def _(r, eqn):
    x = eqn.inputs[0]
    made = r.made_by(x, "reshape")
    if made is not None:
        return r.apply("reshape", made.inputs[0], source=eqn.source, shape=eqn.params["shape"])
    made = r.made_by(x, "broadcast_to")
    if made is not None and made.inputs[0].spec.size == 1:
        one = made.inputs[0]
        if one.spec.shape:
            one = r.apply("reshape", one, source=eqn.source, shape=())
        return r.apply("broadcast_to", one, source=eqn.source, shape=eqn.params["shape"])
    return same(eqn, x)


@rule("broadcast_to")
def _(r, eqn):
    x = eqn.inputs[0]
    made = r.made_by(x, "broadcast_to")
    if made is not None:
        return r.apply("broadcast_to", made.inputs[0], source=eqn.source, shape=eqn.params["shape"])
    if x.spec.weak:
        return None
    return same(eqn, x)


@rule("sum", "prod", "max", "min")
def _(r, eqn):
    x, axes = eqn.inputs[0], eqn.params["axes"]
    if all(x.spec.shape[a] == 1 for a in axes) and x.spec.dtype == eqn.outputs[0].spec.dtype and not x.spec.weak:
        return r.apply("reshape", x, source=eqn.source, shape=eqn.outputs[0].spec.shape)
    return None
