"""autograd's names on `triskele.core`, so that autograd's own tests can be run against it.

Derivatives, NumPy, SciPy's linalg and special functions are ours; what autograd builds on its public functions (the
distributions of scipy.stats, odeint, `flatten`, `check_grads`) is read from the checkout in AUTOGRAD_CHECKOUT.
"""

import builtins as py
import functools
import importlib
import os
import sys
import types

import numpy as onp
import scipy as osp
import scipy.linalg
import scipy.special

from triskele import core as ours
from triskele.core.ops.shape import sum_to

__path__.append(os.path.join(os.environ["AUTOGRAD_CHECKOUT"], "autograd"))
from autograd.wrap_util import unary_to_nary  # noqa: E402  the checkout's


def module(name, *spaces, path=None, **names):
    """Module `name` that looks its attributes up in `names`, then in each of `spaces`."""
    out = types.ModuleType(f"autograd.{name}")
    out.__dict__.update(names)
    out.__getattr__ = lambda key: _find(key, spaces, out.__name__)
    if path is not None:
        out.__path__ = [os.path.join(os.environ["AUTOGRAD_CHECKOUT"], "autograd", path)] if path else []
    sys.modules[out.__name__] = out
    parent, _, last = out.__name__.rpartition(".")
    setattr(sys.modules[parent], last, out)
    return out


def _find(key, spaces, where):
    for space in spaces:
        if hasattr(space, key):
            return getattr(space, key)
    raise AttributeError(f"module {where} has no attribute {key!r}")


# -- vector spaces: trees with an inner product
# ----------------------------------------------------------------------------


class VSpace:
    def __init__(self, value):
        self.leaves, self.structure = ours.tree.flatten(value)
        self.specs = [(onp.shape(x), onp.result_type(x)) for x in self.leaves]
        self.size = sum(onp.size(x) * (1 + onp.iscomplexobj(x)) for x in self.leaves)
        self.iscomplex = any(onp.iscomplexobj(x) for x in self.leaves)
        self.shape = self.specs[0][0] if len(self.specs) == 1 else None

    def __eq__(self, other):
        kinds = [[(s, d.kind == "c") for s, d in v.specs] for v in (self, other)]
        return self.structure == other.structure and kinds[0] == kinds[1]

    def __repr__(self):
        return f"VSpace({self.structure}, {self.specs})"

    def _map(self, make):
        return ours.tree.unflatten(self.structure, [make(s, d)[()] for s, d in self.specs])

    def zeros(self):
        return self._map(onp.zeros)

    def ones(self):
        return self._map(lambda s, d: onp.full(s, 1 + 1j if d.kind == "c" else 1, d))

    def randn(self):
        normal = onp.random.standard_normal
        return self._map(lambda s, d: onp.asarray(normal(s) + 1j * normal(s) if d.kind == "c" else normal(s)))

    def standard_basis(self):
        for k, (shape, dtype) in enumerate(self.specs):
            for i in onp.ndindex(shape):
                for unit in (1.0, 1.0j)[: 1 + (dtype.kind == "c")]:
                    cells = [onp.zeros(s, d) for s, d in self.specs]
                    cells[k][i] = unit
                    yield ours.tree.unflatten(self.structure, [c[()] for c in cells])

    def add(self, x, y):
        return ours.tree.map(lambda a, b: a + b, x, y)

    def scalar_mul(self, x, a):
        return ours.tree.map(lambda v: v * a, x)

    def covector(self, x):
        return ours.tree.map(onp.conj, x)

    def inner_prod(self, x, y):
        pairs = zip(ours.tree.leaves(x), ours.tree.leaves(y), strict=True)
        return sum(onp.real(onp.sum(onp.conj(a) * b)) for a, b in pairs)


# -- derivatives -------------------------------------------------------------------------------------------------------


def _make_vjp(f, x):
    out, pull = ours.vjp(f, x)
    return (lambda g: pull(g)[0]), out


def _make_jvp(f, x):
    return lambda v: ours.jvp(f, (x,), (v,))


def _scalar(f):
    @functools.wraps(f)
    def scalar(x):
        out = f(x)
        if onp.size(out) != 1:
            raise TypeError(f"a scalar is wanted, got shape {onp.shape(out)}")
        return onp.reshape(out, ()) if onp.ndim(out) else out

    return scalar


@unary_to_nary
def grad(f, x):
    """
    Returns a function which computes the gradient."""
    return ours.grad(_scalar(f))(x)


@unary_to_nary
def value_and_grad(f, x):
    return ours.value_and_grad(_scalar(f))(x)


@unary_to_nary
def jacobian(f, x):
    return ours.jacrev(f)(x)


@unary_to_nary
def hessian(f, x):
    return ours.jacrev(ours.jacrev(_scalar(f)))(x)


@unary_to_nary
def grad_and_aux(f, x):
    return ours.grad(f, has_aux=True)(x)


class primitive:
    """A function that no transform looks into, with rules given by `defvjp`."""

    def __init__(self, f):
        functools.update_wrapper(self, f, updated=())
        self.f, self.rules, self.all = f, {}, None

    def __call__(self, *args, **kwargs):
        live = [i for i, a in enumerate(args) if any(isbox(x) for x in ours.tree.leaves(a))]
        if not live:
            return self.f(*args, **kwargs)

        def again(*xs):
            full = list(args)
            for i, x in zip(live, xs, strict=True):
                full[i] = x
            return self(*full, **kwargs)

        def bwd(kept, g):
            out, xs = kept
            full = list(args)
            for i, x in zip(live, xs, strict=True):
                full[i] = x
            if self.all is not None:
                return tuple(self.all(tuple(live), out, tuple(full), kwargs)(g))
            absent = [i for i in live if i not in self.rules]
            if absent:
                raise NotImplementedError(f"VJP of {self.__name__} with respect to arguments {absent}")
            return tuple([self.rules[i](out, *full, **kwargs)(g) if self.rules[i] else None for i in live])

        custom = ours.custom_vjp(again)
        if self.rules or self.all:
            custom.defvjp(lambda *xs: (lambda out: (out, (out, xs)))(again(*xs)), bwd)
        return custom(*[args[i] for i in live])


def defvjp(p, *rules, argnums=None):
    p.rules.update(zip(argnums or range(len(rules)), rules, strict=False))


def defvjp_argnums(p, rule):
    p.all = rule


def defvjp_argnum(p, rule):
    p.all = lambda nums, out, args, kwargs: lambda g: [rule(i, out, args, kwargs)(g) for i in nums]


def isbox(x):
    return py.isinstance(x, ours.Tensor)


def isinstance(x, kinds):
    while isbox(x):
        x = x.value
    return py.isinstance(x, kinds)


def _unbroadcast(x, target):
    x = sum_to(x, onp.shape(target))
    return x if onp.iscomplexobj(target) else onp.real(x)


def _make_diagonal(d, axis1, axis2):
    return d[..., None] * onp.eye(onp.shape(d)[-1])


make_vjp, make_jvp, checkpoint = unary_to_nary(_make_vjp), unary_to_nary(_make_jvp), ours.checkpoint
list, tuple, dict, type = py.list, py.tuple, py.dict, py.type

# -- the modules the tests import
# --------------------------------------------------------------------------------------------

module("core", make_vjp=_make_vjp, make_jvp=_make_jvp, vspace=VSpace, primitive=primitive, primitive_vjps={})
module("tracer", primitive=primitive, isbox=isbox)
module(
    "extend",
    primitive=primitive,
    defvjp=defvjp,
    defvjp_argnums=defvjp_argnums,
    defvjp_argnum=defvjp_argnum,
    vspace=VSpace,
)
module("builtins", list=list, tuple=tuple, dict=dict, type=type, isinstance=isinstance)
module("numpy", ours.numpy, onp, path="", make_diagonal=_make_diagonal)
module("numpy.linalg", onp.linalg, T=onp.matrix_transpose, _dot=onp.matmul)
module("numpy.fft", onp.fft)
sys.modules["autograd.numpy.random"] = sys.modules["autograd.numpy"].random = onp.random
module(
    "numpy.numpy_vjps", unbroadcast_f=lambda target, f: lambda g: _unbroadcast(f(g), target), unbroadcast=_unbroadcast
)
_theirs = importlib.import_module("autograd.differential_operators")
_theirs.grad, _theirs.jacobian = grad, jacobian
for _name in (
    "deriv",
    "elementwise_grad",
    "hessian_tensor_product",
    "hessian_vector_product",
    "holomorphic_grad",
    "make_ggnvp",
    "make_hvp",
    "multigrad_dict",
    "tensor_jacobian_product",
    "vector_jacobian_product",
    "grad_named",
):
    globals()[_name] = getattr(_theirs, _name)
module("misc", path="misc", const_graph=lambda f, *args, **kwargs: ours.jit(functools.partial(f, *args, **kwargs)))
sys.modules["autograd.misc"].flatten = importlib.import_module("autograd.misc.flatten").flatten
module("scipy", path="scipy")
module("scipy.linalg", ours.scipy.linalg, osp.linalg)
module("scipy.special", ours.scipy.special, osp.special)
for _name in ("integrate", "signal", "stats"):
    setattr(sys.modules["autograd.scipy"], _name, importlib.import_module(f"autograd.scipy.{_name}"))
