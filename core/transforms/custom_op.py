"""`core.custom_op`: a Numba kernel, a NumPy or SciPy function, or a C function as an operator of the core."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import Any, TypeVar, overload

import numpy as np

from .. import tree
from ..by_name import ByName
from ..errors import MissingRuleError
from ..graph.graph import Spec, spec_of
from ..graph.primitive import PRIMITIVES, Primitive
from ..graph.trace import bind, describe
from ..ops.define import as_value, broadcast_shapes, move_batch_axis
from ..ops.elementwise import convert
from . import custom_native
from .rules import Rules
from .tape import inexact
from .vmap import vmap

__all__ = ["custom_op", "spec"]

F = TypeVar("F", bound=Callable[..., Any])
MODES = ("numba", "python", "cfunc")


def spec(shape: int | Sequence[int], dtype: Any = float) -> Spec:
    """Shape and dtype of an array before it exists, for the `out` of `custom_op`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import spec
    >>> print(spec((2, 3), np.float32))
    float32[2,3]
    """
    return Spec((shape,) if isinstance(shape, int) else tuple(int(n) for n in shape), np.dtype(dtype))


class _Leaf:
    """A Spec as a leaf of a tree (a namedtuple would be taken apart)."""

    def __init__(self, spec):
        self.spec = spec


def _spec_tree(out, where):
    """Flat specs and structure of what an `out` function returned."""

    def walk(x):
        if isinstance(x, dict):
            return {k: walk(v) for k, v in x.items()}
        if isinstance(x, (tuple, list)) and not isinstance(x, Spec):
            return type(x)([walk(v) for v in x])
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise TypeError(
                f"{where}: out must return specs (core.spec(shape, dtype)), one or a tree of them, got "
                f"{type(x).__name__}"
            )
        return _Leaf(spec(x.shape, x.dtype))

    leaves, structure = tree.flatten(walk(out))
    return [leaf.spec for leaf in leaves], structure


class CustomOp(ByName):
    """An operator made by `custom_op`; called on arrays and Tensors."""

    def __init__(self, function: Any, out: Callable, mode: str, batch: str | None, name: str, argtypes: Any, abi: Any):
        self.function, self.out, self.mode, self.batching = function, out, mode, batch
        self.name = name
        self.where = f"custom_op {name.rpartition('.')[2]}"
        self.argtypes = None if argtypes is None else tuple(np.dtype(t) for t in argtypes)
        self.abi = abi
        self._vjp: Callable | None = None
        self._jvp: Callable | None = None
        self._batch: Callable | None = None
        self._loops: dict[Any, Callable] = {}
        self._entries: dict[Any, Any] = {}
        self.primitive = self._define(name, self._impl, self._specs)
        # native(in_specs, out_specs, **static) -> entry for compiled programs (see custom_native) with its `address`,
        # or None where only Python can call the operator
        self.primitive.native = self._native  # type: ignore[attr-defined]
        self._looped: Primitive | None = None
        self._transposing = 0  # depth

    def __repr__(self):
        return f"<custom_op {self.name}, mode {self.mode}>"

    def __call__(self, *args: Any, **static: Any) -> Any:
        values = [as_value(a) for a in args]
        if self.argtypes is not None:
            if len(args) != len(self.argtypes):
                raise TypeError(f"{self.where}: expected {len(self.argtypes)} arguments, got {len(args)}")
            values = [self._typed(i, a, want) for i, (a, want) in enumerate(zip(values, self.argtypes, strict=True))]
        try:
            hash(tuple(static.items()))
        except TypeError as error:
            raise TypeError(
                f"{self.where}: keyword arguments are fixed options and must be hashable, {error} (arrays are passed "
                "by position)"
            ) from None
        outs = bind(self.primitive, *values, **static)
        _, structure = self._out(*[spec_of(v) for v in values], **static)
        return tree.unflatten(structure, outs)

    def _typed(self, i, a, want):
        have = spec_of(a)
        if have.dtype == want and not have.weak:
            return a
        if not (np.can_cast(have.dtype, want, "safe") or have.weak and np.can_cast(have.dtype, want, "same_kind")):
            raise TypeError(
                f"{self.where}: argument {i} must be {want}, as argtypes says, got {have} (convert it with astype)"
            )
        return bind(convert, a, dtype=want)

    # -- shapes and values
    # ------------------------------------------------------------------------------------------------

    def _out(self, *specs, **static):
        return _spec_tree(self.out(*[s._replace(weak=False) for s in specs], **static), self.where)

    def _specs(self, *specs, **static):
        return tuple(self._out(*specs, **static)[0])

    def _impl(self, *args, **static):
        specs = self._specs(*[spec_of(a) for a in args], **static)
        inputs = [_read_only(a) for a in args]
        try:
            if self.mode == "python":
                return self._checked(self.function(*inputs, **static), specs, inputs, static)
            outs = [np.empty(s.shape, s.dtype) for s in specs]
            if self.mode == "numba":
                # signatures fixed by the user: writable arrays only
                if getattr(self.function, "_can_compile", True) is False:
                    inputs = [np.array(a) if a.ndim else a for a in inputs]
                returned = self.function(*inputs, *outs, **static)
                if returned is not None:
                    raise TypeError(
                        f"{self.where}: the kernel must write into its last argument(s) and return nothing, got "
                        f"{type(returned).__name__} (mode='python' takes returned values)"
                    )
            else:
                self._call_c(inputs, outs)
        except Exception as error:
            error.add_note(f"in {self.where}({describe(args)}); inputs are read-only")
            raise
        return tuple([o[()] for o in outs])

    def _checked(self, result, specs, inputs, static):
        wanted = self._out(*[spec_of(a) for a in inputs], **static)[1]
        found, structure = tree.flatten(result)
        if structure != wanted:
            raise ValueError(f"{self.where}: it must return {wanted}, as out says, got {structure}")
        outs = []
        for k, (r, s) in enumerate(zip(found, specs, strict=True)):
            a = np.asarray(r)
            if a.shape != s.shape or (a.dtype != s.dtype and not isinstance(r, (bool, int, float, complex))):
                raise ValueError(f"{self.where}: output {k} must be {s}, as out says, got {Spec(a.shape, a.dtype)}")
            shared = not a.flags.writeable or any(
                np.may_share_memory(a, x) for x in inputs if isinstance(x, np.ndarray)
            )
            outs.append((a.astype(s.dtype) if shared or a.dtype != s.dtype else a)[()])
        return tuple(outs)

    def _call_c(self, inputs, outs):
        arrays = [np.ascontiguousarray(a).reshape(np.shape(a)) for a in inputs]
        address = custom_native.address_of(self.function, self.where)
        if self.abi != "elementwise":
            custom_native.call_c(address, self._parsed(len(arrays), len(outs)), arrays, outs)
            return
        key = (tuple(a.dtype for a in arrays), outs[0].dtype)
        if key not in self._loops:
            self._loops[key] = custom_native.c_loop(address, len(arrays), *key)
        flat = [np.ascontiguousarray(np.broadcast_to(a, outs[0].shape)).reshape(-1) for a in arrays]
        self._loops[key](*flat, outs[0].reshape(-1))

    def _parsed(self, n_in, n_out):
        return custom_native.parse_abi(self.abi or custom_native.default_abi(n_in, n_out), self.where)

    def _native(self, in_specs, out_specs, **static):
        if self.mode == "python" or self.abi == "elementwise":
            return None
        key = (tuple(in_specs), tuple(out_specs), tuple(static.items()))
        if key not in self._entries:
            if self.mode == "numba":
                self._entries[key] = custom_native.numba_entry(self.function, in_specs, out_specs, static)
            else:
                parsed = self._parsed(len(in_specs), len(out_specs))
                self._entries[key] = custom_native.c_entry(
                    custom_native.address_of(self.function, self.where), parsed, in_specs, out_specs
                )
        return self._entries[key]

    # -- rules ---------------------------------------------------------------------------------------------------------

    def vjp(self, rule: F) -> F:
        """Decorator: the derivative in reverse mode (forward mode follows).

        ``rule(ct, out, *inputs, **static)`` returns one cotangent per input, None for zero; alone if there is one
        input. With several outputs, `ct` and `out` are trees like them. It is written in NumPy, core functions and
        operators.
        """
        self._vjp = rule
        return rule

    def jvp(self, rule: F) -> F:
        """Decorator: the derivative in forward mode (reverse mode follows).

        ``rule(tangents, out, *inputs, **static)`` returns the tangent of the output(s), linear in `tangents`, a tuple
        with one array per input (zeros where there is none).
        """
        self._jvp = rule
        return rule

    def batch(self, rule: F) -> F:
        """Decorator: the operator on a batch.

        ``rule(size, is_batched, *inputs, **static)`` returns the output(s) with the batch axis first. `is_batched`
        tells of each input whether it has a batch axis, which then comes first.
        """
        self._batch = rule
        return rule

    def _pull(self, outs, xs, cts, structure, static):
        given = [tree.unflatten(structure, cts), tree.unflatten(structure, outs)]
        found = self._vjp(*given, *xs, **static)  # type: ignore[misc]
        found = found if isinstance(found, (tuple, list)) else (found,)
        if len(found) != len(xs):
            raise TypeError(
                f"{self.where}: its vjp rule must return {len(xs)} cotangents, one for each input (None for zero), got "
                f"{len(found)}"
            )
        return list(found)

    def _push(self, outs, xs, tangents, structure, static):
        out = tree.unflatten(structure, outs)
        found, t_structure = tree.flatten(self._jvp(tuple(tangents), out, *xs, **static))  # type: ignore[misc]
        if t_structure != structure:
            raise ValueError(
                f"{self.where}: the tangent must have the structure of the output, {structure}, got {t_structure}"
            )
        return found

    def _rules(self, outs, args, static, is_batched=None):
        """The rules at `args`, where the operator gave `outs`; with `is_batched`, over a batch."""
        pull, push, axes = self._pull, self._push, None
        specs = [spec_of(a) for a in args]
        if is_batched is not None:
            specs = self._one(specs, is_batched)
            axes = [0 if b else None for b in is_batched]
        structure = self._out(*specs, **static)[1]

        def bwd(residuals, cts):
            if axes is None:
                return pull(outs, args, cts, structure, static)
            found = vmap(lambda o, x, c: pull(o, x, c, structure, static), in_axes=(0, axes, 0))(
                list(outs), list(args), list(cts)
            )
            return [g if g is None or ax == 0 else np.sum(g, axis=0) for g, ax in zip(found, axes, strict=True)]

        def jvp(xs, tangents):
            if axes is None:
                return outs, push(outs, args, tangents, structure, static)
            t = vmap(lambda o, x, t: push(o, x, t, structure, static), in_axes=(0, axes, axes))(
                list(outs), list(args), list(tangents)
            )
            return outs, t

        rules = Rules(self.where, len(args), lambda *xs: outs)
        if self._vjp is not None:
            rules.fwd, rules.bwd = lambda *xs: (outs, []), bwd
        if self._jvp is not None:
            rules.jvp = jvp
        return rules

    def _no_rule(self, mode, args):
        short = self.name.rpartition(".")[2]
        return MissingRuleError(
            f"{self.where}({describe(args)}): no derivative rule, needed for {mode} mode here (define one with "
            f"@{short}.vjp or @{short}.jvp; "
            "either serves both modes)"
        )

    def _define(self, name, impl, specs):
        PRIMITIVES.pop(name, None)  # defined again, as in a notebook
        p = Primitive(name, impl, specs, multiple=True, kind="opaque")

        def rules_of(outs, args, examples=None, is_batched=None, **static):
            return self._rules(list(outs), list(args), static, is_batched)

        @p.deftaped
        def _(args, needed, **params):
            outs = bind(p, *args, **params)
            if not any(inexact(o) for o in outs):
                return outs, lambda cts: [None] * len(args)
            if self._vjp is None and self._jvp is None:
                raise self._no_rule("reverse", args)
            needed = [n and inexact(a) for n, a in zip(needed, args, strict=True)]
            self._transposing += 1
            try:
                if self._transposing > 50:
                    raise MissingRuleError(
                        f"{self.where}: its jvp rule applies the operator itself to the tangents, so its transpose is "
                        "not known (define one with .vjp)"
                    )
                _, pull = rules_of(outs, args, **params).reverse(args, needed)
            finally:
                self._transposing -= 1
            return outs, pull

        @p.defjvp_all
        def _(tangents, outs, args, **params):
            if not any(inexact(o) for o in outs):
                return (None,) * len(outs)
            if self._vjp is None and self._jvp is None:
                raise self._no_rule("forward", args)
            return tuple(rules_of(outs, args, **params).forward(args, tangents)[1])

        p.defbatch(self._nested if impl == self._loop_impl else self._batch_rule)
        return p

    # -- batches -------------------------------------------------------------------------------------------------------

    def _batch_rule(self, args, axes, size, **static):
        flags = tuple(ax is not None for ax in axes)
        moved = [move_batch_axis(a, ax, size) if b else a for a, ax, b in zip(args, axes, flags, strict=True)]
        if self._batch is not None:
            outs, _ = tree.flatten(self._batch(size, flags, *moved, **static))
        elif self.batching == "broadcast":
            if self.abi == "elementwise":
                rank = max(np.ndim(a) - b for a, b in zip(moved, flags, strict=True))
                moved = [
                    np.reshape(a, (size, *(1,) * (rank + 1 - np.ndim(a)), *np.shape(a)[1:])) if b else a
                    for a, b in zip(moved, flags, strict=True)
                ]
            else:
                moved = [a if b else move_batch_axis(a, None, size) for a, b in zip(moved, flags, strict=True)]
            outs = bind(self.primitive, *moved, **static)
        elif self.batching == "sequential":
            if self._looped is None:
                self._looped = self._define(f"{self.name} one by one", self._loop_impl, self._loop_specs)
            outs = bind(self._looped, *moved, is_batched=flags, examples=size, **static)
        else:
            short = self.name.rpartition(".")[2]
            raise MissingRuleError(
                f"{self.where}({describe(args)}): no batching rule, needed for vmap here (define one with "
                f"@{short}.batch, or give custom_op "
                "batch='sequential' to run the examples one after another, batch='broadcast' if it treats leading "
                "axes as a batch)"
            )
        for k, o in enumerate(outs):
            if np.ndim(o) == 0 or np.shape(o)[0] != size:
                raise ValueError(
                    f"{self.where}: on a batch of {size}, output {k} must have the batch axis first, got shape "
                    f"{np.shape(o)}"
                )
        return tuple(outs), (0,) * len(outs)

    def _one(self, specs, is_batched):
        return [s._replace(shape=s.shape[1:]) if b else s for s, b in zip(specs, is_batched, strict=True)]

    def _loop_specs(self, *specs, is_batched, examples, **static):
        return tuple(
            [s._replace(shape=(examples, *s.shape)) for s in self._specs(*self._one(specs, is_batched), **static)]
        )

    def _loop_impl(self, *args, is_batched, examples, **static):
        specs = self._loop_specs(*[spec_of(a) for a in args], is_batched=is_batched, examples=examples, **static)
        outs = [np.empty(s.shape, s.dtype) for s in specs]
        for i in range(examples):
            for o, r in zip(
                outs,
                self._impl(*[a[i] if b else a for a, b in zip(args, is_batched, strict=True)], **static),
                strict=True,
            ):
                o[i] = r
        return tuple(outs)

    def _nested(self, args, axes, size, *, is_batched, **params):
        """A batch of batches is a longer batch."""
        inner = params.pop("examples")
        flat = []
        for a, ax, b in zip(args, axes, is_batched, strict=True):
            if ax is None and not b:
                flat.append(a)
                continue
            a = move_batch_axis(a, ax, size)
            if not b:
                a = np.broadcast_to(np.reshape(a, (size, 1, *np.shape(a)[1:])), (size, inner, *np.shape(a)[1:]))
            flat.append(np.reshape(a, (size * inner, *np.shape(a)[2:])))
        flags = tuple(ax is not None or b for ax, b in zip(axes, is_batched, strict=True))
        outs = bind(self._looped, *flat, is_batched=flags, examples=size * inner, **params)
        return tuple([np.reshape(o, (size, inner, *np.shape(o)[1:])) for o in outs]), (0,) * len(outs)


def _read_only(a):
    """The argument as the function sees it: a C-contiguous array that cannot be written to, or a NumPy scalar."""
    a = np.asarray(a)
    if a.ndim == 0:
        return a[()]
    a = np.ascontiguousarray(a).view()
    a.flags.writeable = False
    return a


@overload
def custom_op(
    function: None = None,
    *,
    out: Callable[..., Any] | None = None,
    mode: str = "numba",
    batch: str | None = None,
    name: str | None = None,
    argtypes: Sequence[Any] | None = None,
    abi: Sequence[str] | str | None = None,
) -> Callable[[Any], CustomOp]: ...
@overload
def custom_op(
    function: Any,
    *,
    out: Callable[..., Any] | None = None,
    mode: str = "numba",
    batch: str | None = None,
    name: str | None = None,
    argtypes: Sequence[Any] | None = None,
    abi: Sequence[str] | str | None = None,
) -> CustomOp: ...
def custom_op(
    function: Any = None,
    *,
    out: Callable[..., Any] | None = None,
    mode: str = "numba",
    batch: str | None = None,
    name: str | None = None,
    argtypes: Sequence[Any] | None = None,
    abi: Sequence[str] | str | None = None,
) -> Any:
    """Make an operator of the core from code of your own. Usable as a decorator.

    Parameters
    ----------
    function : callable or pointer
        ``mode="numba"``: compiled by ``numba.njit``, called as ``function(*inputs, *outputs)``; writes the outputs,
        returns nothing. ``mode="python"``: takes arrays, returns arrays. ``mode="cfunc"``: a ctypes or cffi function
        pointer, a Numba cfunc, or an integer address. Inputs are C-contiguous and read-only, NumPy scalars where of
        shape ().
    out : callable
        ``out(*specs, **static)`` returns `spec` (shape, dtype) of the output, or a tree of them, from those of the
        inputs.
    mode : {"numba", "python", "cfunc"}
    batch : {None, "sequential", "broadcast"}
        What `vmap` does without a rule given by ``batch``: an error, a loop over the examples, or one call in which
        every argument has the batch axis in front.
    name : str, optional
        Defaults to the function's. An operator defined again under its name replaces the older one.
    argtypes : sequence of dtype
        With ``mode="cfunc"``, the dtype of each input (values are converted where no precision is lost).
    abi : sequence of str, or "elementwise"
        With ``mode="cfunc"``, what each C parameter receives: ``in0`` (pointer to input 0), ``shape0`` (pointer to its
        shape, int64_t), ``size0``, ``ndim0`` (int64_t; ``size0:int32`` for int), ``value0`` (a scalar input by value),
        ``out0``, ``outshape0``, ``outsize0``, ``outndim0``. By default ``in0, shape0, in1, shape1, …, out0, outshape0,
        …``: ``void f(const T0 *x0, const int64_t *shape0, …, T *out, const int64_t *outshape)``. ``"elementwise"`` is a
        function of scalars ``T f(T, …)``, called for each element of the broadcast inputs; `out` may then be left out.

    Returns
    -------
    CustomOp
        Give it derivatives with ``vjp`` or ``jvp`` and a batching rule with ``batch``. Positional arguments are arrays,
        keywords are fixed options passed to the function, to `out` and to the rules.

    Raises
    ------
    MissingRuleError
        When a transform needs a rule that was not given.

    Notes
    -----
    Julia, with the package juliacall::

        from juliacall import Main as jl
        jl.seval("square(x, out, n) = (for i in 1:n; unsafe_store!(out, unsafe_load(x, i)^2, i); end; nothing)")
        address = int(jl.seval("UInt(@cfunction(square, Cvoid, (Ptr{Float64}, Ptr{Float64}, Int64)))"))
        square = custom_op(address, out=lambda x: x, mode="cfunc", argtypes=[float], abi=["in0", "out0", "size0"])

    Examples
    --------
    >>> import numpy as np
    >>> import numba
    >>> from triskele.core import custom_op, spec
    >>> @custom_op(out=lambda x: spec(x.shape, x.dtype))
    ... @numba.njit
    ... def cumulative_max(x, out):
    ...     best = x[0]
    ...     for i in range(x.size):
    ...         best = max(best, x[i])
    ...         out[i] = best
    >>> cumulative_max(np.array([1.0, 3.0, 2.0]))
    array([1., 3., 3.])
    """
    if function is None:
        return partial(custom_op, out=out, mode=mode, batch=batch, name=name, argtypes=argtypes, abi=abi)
    plain = getattr(function, "py_func", function)
    short = name or getattr(plain, "__qualname__", None) or getattr(plain, "__name__", None) or "cfunc"
    where = f"custom_op {short}"
    if mode not in MODES:
        raise ValueError(f"{where}: mode must be one of {', '.join(MODES)}, got {mode!r}")
    if batch not in (None, "sequential", "broadcast"):
        raise ValueError(
            f"{where}: batch must be None, 'sequential' or 'broadcast', got {batch!r} (rules are given with .batch)"
        )
    if mode == "numba" and not hasattr(function, "py_func"):
        raise TypeError(
            f"{where}: mode='numba' needs a function compiled by numba.njit, got {type(function).__name__} "
            "(decorate it, or mode='python')"
        )
    if mode == "python" and not callable(function):
        raise TypeError(f"{where}: mode='python' needs a function, got {type(function).__name__}")
    if mode == "cfunc":
        custom_native.address_of(function, where)
        if argtypes is None:
            raise ValueError(f"{where}: with mode='cfunc' argtypes must give the dtype of each input, got None")
        if abi is not None and abi != "elementwise":
            custom_native.parse_abi(abi, where)
    elif argtypes is not None or abi is not None:
        raise ValueError(f"{where}: argtypes and abi are for mode='cfunc', got mode={mode!r}")
    if abi == "elementwise" and out is None:
        result = np.result_type(*argtypes)  # type: ignore[misc]
        out = lambda *specs: spec(broadcast_shapes(short, *[s.shape for s in specs]), result)
        batch = batch or "broadcast"
    if not callable(out):
        raise TypeError(
            f"{where}: out must be a function from the specs of the inputs to those of the outputs, got "
            f"{type(out).__name__}"
        )
    module = getattr(plain, "__module__", None) or "custom"
    op = CustomOp(function, out, mode, batch, f"{module}.{short}", argtypes, abi)
    if inspect.isfunction(plain) or hasattr(plain, "__doc__") and hasattr(plain, "__name__"):
        update_wrapper(op, plain, updated=())
    return op
