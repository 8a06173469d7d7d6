"""Products against NumPy's, their derivatives against differences, their batches against loops."""

import numpy as np
import pytest

import triskele.core.ops  # noqa: F401
from tests.twins.derivatives import check_batched, check_derivatives
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import bind, evaluate, make_graph
from triskele.core.ops.contract import dot_general, kron, matmul, matvec, multi_dot, vecdot, vecmat
from triskele.core.ops.einsum import einsum
from triskele.core.transforms.grad import grad, vjp


def traced(f, *args):
    """Value of `f` computed with Tensors."""
    graph, _ = make_graph(lambda *xs: [f(*xs)], [spec_of(a) for a in args])
    (out,) = evaluate(graph, *args)
    assert graph.out_specs[0].shape == np.shape(out) and graph.out_specs[0].dtype == np.result_type(out)
    return out


MATMUL_SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (1, 3, 4)),
    ((5, 2, 3), (3,)),
    ((1, 2, 3), (1, 3, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), MATMUL_SHAPES)
def test_matmul_is_numpys_with_derivatives(rng, left, right):
    x, y = rng.normal(size=left), rng.normal(size=right)
    np.testing.assert_allclose(traced(np.matmul, x, y), x @ y, rtol=1e-13)
    check_derivatives(np.matmul, x, y)
    check_batched(np.matmul, x, y)


@pytest.mark.parametrize(
    "dtypes",
    [("float32", "float32"), ("int32", "float32"), ("int64", "int8"), ("bool", "bool"), ("complex64", "float64")],
)
def test_dtypes_are_numpys(rng, dtypes):
    x, y = [(rng.normal(size=s) * 3).astype(d) for s, d in zip(((2, 3), (3, 2)), dtypes, strict=True)]
    for f in (np.matmul, np.dot, np.inner, lambda a, b: np.einsum("ij,jk", a, b), lambda a, b: np.tensordot(a, b, 1)):
        y_ = y.T if f is np.inner else y
        want, got = f(x, y_), traced(f, x, y_)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_complex_products(rng):
    x, y = (rng.normal(size=(2, 3, 3)) + 1j * rng.normal(size=(2, 3, 3)) for _ in range(2))
    for f in (np.matmul, np.vdot, np.vecdot, np.inner):
        np.testing.assert_allclose(traced(f, x, y), f(x, y), rtol=1e-12)
        check_derivatives(f, x, y)


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (np.dot, [(2, 3), (4, 3, 2)]),
        (np.dot, [(), (2, 3)]),
        (np.inner, [(2, 3), (4, 3)]),
        (np.outer, [(2, 3), (4,)]),
        (np.vdot, [(2, 3), (3, 2)]),
        (lambda a, b: np.tensordot(a, b, axes=([0, -1], [1, 0])), [(2, 3, 4), (4, 2, 5)]),
        (lambda a, b: np.tensordot(a, b, axes=0), [(2,), (3,)]),
        (np.kron, [(2, 3), (3, 2)]),
        (np.kron, [(2,), (3, 2)]),
        (np.vecdot, [(4, 3), (3,)]),
        (lambda a, b: np.vecdot(a, b, axis=0), [(3, 4), (3, 4)]),
        (lambda a, b, c: np.linalg.multi_dot([a, b, c]), [(4, 2), (2, 5), (5,)]),
        (np.linalg.vecdot, [(4, 3), (4, 3)]),
    ],
)
def test_products_are_numpys_with_derivatives(rng, f, shapes):
    args = [rng.normal(size=s) for s in shapes]
    np.testing.assert_allclose(traced(f, *args), f(*args), rtol=1e-12)
    check_derivatives(f, *args)
    check_batched(f, *args)


@pytest.mark.skipif(not hasattr(np, "matvec"), reason="needs NumPy 2.2")
def test_matvec_and_vecmat_broadcast(rng):
    a, v = rng.normal(size=(5, 2, 3)), rng.normal(size=(4, 1, 3)) + 1j
    np.testing.assert_allclose(traced(np.matvec, a, v), np.matvec(a, v), rtol=1e-12)
    np.testing.assert_allclose(
        traced(np.vecmat, v, np.swapaxes(a, 1, 2)), np.vecmat(v, np.swapaxes(a, 1, 2)), rtol=1e-12
    )
    check_derivatives(matvec, a, v)


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ji,jk->ki", (3, 2), (3, 4)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij->ji", (3, 3, 2)),
    ("ijk->kj", (2, 3, 4)),
    ("i,i->", (3,), (3,)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("ij,ji->", (2, 3), (3, 2)),
    ("i,j->ji", (3,), (2,)),
    ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,k->i", (2, 3), (4,)),
    ("...ij,...jk->...ik", (5, 2, 3), (4, 1, 3, 2)),
    ("i...,i...->...", (3, 2), (3, 2)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("ij,jk,kl,lm->", (2, 3), (3, 4), (4, 2), (2, 2)),
    ("ij,ij,ij->i", (2, 3), (2, 3), (2, 3)),
    ("ij,jk->ik", (2, 1), (3, 4)),
    ("iij,jk->k", (2, 2, 3), (3, 4)),
    ("->", ()),
    ("i->", (3,)),
    ("a,b,c->abc", (2,), (3,), (4,)),
    ("kij,k->ij", (4, 2, 3), (4,)),
    ("...,...->...", (2, 3), (3,)),
    ("ba,ca->abc", (2, 3), (4, 3)),
]  # fmt: skip


@pytest.mark.parametrize("case", EINSUMS, ids=lambda c: c[0])
def test_einsum_is_numpys_with_derivatives(rng, case):
    text, *shapes = case
    args = [rng.normal(size=s) for s in shapes]
    np.testing.assert_allclose(traced(lambda *xs: np.einsum(text, *xs), *args), np.einsum(text, *args), rtol=1e-11)
    check_derivatives(lambda *xs: einsum(text, *xs), *args)
    check_batched(lambda *xs: einsum(text, *xs), *args, rtol=1e-11)


def test_einsum_takes_lists_paths_and_dtypes(rng):
    a, b, c = rng.normal(size=(2, 3)), rng.normal(size=(3, 4)), rng.normal(size=(4, 5))
    np.testing.assert_allclose(traced(lambda x: np.einsum(x, [0, 1], b, [1, 2], [2, 0]), a), (a @ b).T)
    np.testing.assert_allclose(traced(lambda x: np.einsum(x, [Ellipsis, 1], b, [1, 2]), a), a @ b)
    path = ["einsum_path", (1, 2), (0, 1)]
    np.testing.assert_allclose(traced(lambda x: np.einsum("ij,jk,kl", x, b, c, optimize=path), a), a @ b @ c)
    np.testing.assert_allclose(
        traced(lambda x: np.einsum("ij,jk,kl", x, b, c, optimize=["einsum_path", (0, 1, 2)]), a), a @ b @ c
    )
    assert traced(lambda x: np.einsum("ij->i", x, dtype=np.float32), a).dtype == np.float32
    mask = a > 0
    assert traced(lambda x: np.einsum("ij->i", x), mask).dtype == bool


@pytest.mark.parametrize(
    ("f", "shapes", "message"),
    [
        (np.matmul, [(2, 3), (2, 3)], "summed dimensions must be equal, got 3 and 2"),
        (np.matmul, [(), (2,)], "at least one dimension"),
        (np.matmul, [(5, 2, 3), (4, 3, 2)], "leading dimensions must broadcast"),
        (np.dot, [(2, 3), (2, 3)], "not aligned"),
        (np.tensordot, [(2, 3), (3, 3)], "shape-mismatch"),
        (lambda a: np.einsum("ij,jk", a, a), [(2, 3)], "must be equal"),
        (lambda a: np.einsum("ij->k", a), [(2, 3)], "output must name"),
        (lambda a: np.einsum("ii", a), [(2, 3)], "must be equal"),
        (lambda a: np.einsum("ijk", a), [(2, 3)], "one name per dimension"),
        (lambda a: np.einsum("...i->i", a), [(2, 3)], "contain an ellipsis"),
        (np.vdot, [(2,), (3,)], "as many elements"),
    ],
)
def test_wrong_shapes_are_refused(rng, f, shapes, message):
    args = [rng.normal(size=s) for s in shapes]
    with pytest.raises(ValueError, match=message):
        traced(f, *args)


def test_one_sided_batches_are_one_product(rng):
    """A batch of matrix-vector products over one matrix is a single matrix product."""
    from triskele.core.transforms.vmap import vmap

    graph, _ = make_graph(
        lambda a, v: [vmap(np.matmul, in_axes=(None, 0))(a, v)],
        [spec_of(rng.normal(size=s)) for s in ((4, 3), (10, 3))],
    )
    products = [e for e in graph.equations if e.primitive is dot_general]
    assert len(products) == 1 and products[0].params["batch"] == ((), ())


@pytest.mark.parametrize("f", [lambda x, w: np.einsum("bi,io->bo", x, w), lambda x, w: np.einsum("bi,oi->bo", x, w)])
def test_cotangents_of_a_layer_need_no_transposition(rng, f):
    specs = [spec_of(rng.normal(size=(5, 3))), spec_of(rng.normal(size=(3, 3)))]
    graph, _ = make_graph(lambda x, w: list(grad(lambda x, w: np.sum(f(x, w)), (0, 1))(x, w)), specs)
    assert "transpose" not in [e.primitive.name for e in graph.equations]


def test_samples_match_einsum(rng):
    for (l, r), params in dot_general.samples(rng):
        (cl, cr), (bl, br) = params["contract"], params["batch"]
        names_l, names_r = list("abcde"[: l.ndim]), list("vwxyz"[: r.ndim])
        for i, j in zip(cl + bl, cr + br, strict=True):
            names_r[j] = names_l[i]
        free_l = [c for i, c in enumerate(names_l) if i not in cl + bl]
        free_r = [c for i, c in enumerate(names_r) if i not in cr + br]
        out = [names_l[i] for i in bl] + free_l + free_r
        want = np.einsum(f"{''.join(names_l)},{''.join(names_r)}->{''.join(out)}", l, r)
        np.testing.assert_allclose(bind(dot_general, l, r, **params), want, rtol=1e-12)
        check_batched(lambda l, r, p=params: bind(dot_general, l, r, **p), l, r, rtol=1e-11)


def test_public_functions_take_plain_arrays(rng):
    a = rng.normal(size=(3, 3))
    for f, g in ((matmul, np.matmul), (vecdot, np.vecdot), (kron, np.kron)):
        np.testing.assert_allclose(f(a, a), g(a, a), rtol=1e-12)
    np.testing.assert_allclose(multi_dot([a, a, a]), a @ a @ a, rtol=1e-12)
    np.testing.assert_allclose(vecmat(a[0], a), a[0] @ a, rtol=1e-12)


def test_gradient_of_matmul_keeps_float32(rng):
    x = rng.normal(size=(2, 3)).astype(np.float32)
    w = rng.normal(size=(3, 2))
    _, pull = vjp(lambda x: x @ w, x)
    assert pull(np.ones((2, 2)))[0].dtype == np.float32


@pytest.mark.parametrize("seed", range(12))
def test_random_einsums(seed):
    """One to four operands, names repeated within and between them, dimensions of length 1, outputs in any order."""
    rng = np.random.default_rng(seed)
    for _ in range(8):
        names = list("abcde"[: rng.integers(2, 6)])
        sizes = {c: int(rng.integers(1, 4)) for c in names}
        terms = ["".join(rng.choice(names, rng.integers(0, 4))) for _ in range(rng.integers(1, 5))]
        used = sorted(set("".join(terms)))
        out = "".join(rng.permutation(used)[: rng.integers(0, len(used) + 1)]) if used else ""
        text = f"{','.join(terms)}->{out}"
        args = [rng.normal(size=[sizes[c] for c in t]) for t in terms]
        want = np.einsum(text, *args)
        np.testing.assert_allclose(
            traced(lambda *xs, text=text: np.einsum(text, *xs), *args), want, rtol=1e-10, atol=1e-12, err_msg=text
        )
        check_derivatives(lambda *xs, text=text: einsum(text, *xs), *args, order=1)
