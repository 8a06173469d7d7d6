"""Vector math against references in higher precision: errors in ulp, special values, every form of the code."""

import ctypes
import functools

import llvmlite.binding as llvm
import mpmath
import numpy as np
import pytest

from triskele.core.kernels import vecmath

FLOAT = {"f32": np.float32, "f64": np.float64}
LLVM = {"f32": "float", "f64": "double"}
WIDTH = {"f32": 16, "f64": 8}
# Scalar code for the loop vectorizer, explicit vectors, and scalar code for a processor without FMA.
FORMS = ("scalar", "vector", "no-fma")
pytestmark = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="the references need 80-bit long double")


@functools.cache
def engine(dtype, form):
    """All functions compiled as loops: k_exp(out, x, n)."""
    width = WIDTH[dtype] if form == "vector" else 1
    t = LLVM[dtype]
    vt = t if width == 1 else f"<{width} x {t}>"
    declares, parts = set(), []
    for name, row in vecmath.names().items():
        s = vecmath.symbol(name, dtype, width)
        bodies, used = vecmath.definitions([s], fma=form != "no-fma")
        declares |= used
        parts.extend(bodies.values())
        arguments = range(row.arity)
        loads = "\n".join(
            f"  %p{k} = getelementptr {t}, ptr %a{k}, i64 %i\n  %x{k} = load {vt}, ptr %p{k}, align 4"
            for k in arguments
        )
        parts.append(f"""define void @k_{name}(ptr noalias %o, {", ".join(f"ptr noalias %a{k}" for k in arguments)}, i64 %n) {{
entry:
  br label %body
body:
  %i = phi i64 [0, %entry], [%i2, %body]
{loads}
  %r = call {vt} {s}({", ".join(f"{vt} %x{k}" for k in arguments)})
  %po = getelementptr {t}, ptr %o, i64 %i
  store {vt} %r, ptr %po, align 4
  %i2 = add nuw nsw i64 %i, {width}
  %e = icmp sge i64 %i2, %n
  br i1 %e, label %exit, label %body
exit:
  ret void
}}""")  # noqa: E501
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    module = llvm.parse_assembly("\n".join([*sorted(declares), *parts]))
    module.triple = target.triple
    module.verify()
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    if form == "no-fma" and target.name.startswith("x86"):
        cpu, features = "x86-64-v2", ""
    machine = target.create_target_machine(cpu=cpu, features=features, opt=3, codemodel="jitdefault", jit=True)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    jit = llvm.create_mcjit_compiler(module, machine)
    jit.finalize_object()
    return jit, module


def evaluate(name, dtype, form, *args):
    """The function over arrays."""
    n = args[0].size
    padded = -(-n // 16) * 16
    args = [np.concatenate([np.asarray(a, FLOAT[dtype]), np.ones(padded - n, FLOAT[dtype])]) for a in args]
    out = np.empty(padded, FLOAT[dtype])
    address = engine(dtype, form)[0].get_function_address(f"k_{name}")
    pointers = [a.ctypes.data for a in (out, *args)]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers), ctypes.c_int64)(address)(*pointers, padded)
    return out[:n]


def ulps(got, exact, dtype, scale=None):
    """Error in units of the last place of the exact result (of `scale` if given)."""
    info = np.finfo(FLOAT[dtype])
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(exact if scale is None else scale), np.longdouble(info.tiny))
        ulp = np.exp2(np.floor(np.log2(size)) - info.nmant)
        error = np.abs(got.astype(np.longdouble) - exact) / ulp
        rounded = exact.astype(FLOAT[dtype])
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same, np.minimum(np.nan_to_num(error, nan=0.0), 0.5), np.nan_to_num(error, nan=np.inf))


def by_mpmath(f):
    def reference(*columns):
        with mpmath.workprec(120):
            exact = [f(*(mpmath.mpf(float(v)) for v in row)) for row in zip(*columns, strict=True)]
            high = [float(e) for e in exact]
            low = [float(e - h) for e, h in zip(exact, high, strict=True)]
        return np.array(high, np.longdouble) + np.array(low, np.longdouble)

    return reference


def by_long_double(f):
    def reference(*columns):
        with np.errstate(all="ignore"):
            return f(*(c.astype(np.longdouble) for c in columns))

    return reference


REFERENCES = {
    **{n: by_long_double(getattr(np, n)) for n in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt")},
    **{n: by_long_double(getattr(np, n)) for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "logaddexp")},
    "asin": by_long_double(np.arcsin),
    "acos": by_long_double(np.arccos),
    "atan": by_long_double(np.arctan),
    "asinh": by_long_double(np.arcsinh),
    "acosh": by_long_double(np.arccosh),
    "atanh": by_long_double(np.arctanh),
    "atan2": by_long_double(np.arctan2),
    "pow": by_long_double(np.power),
    "rsqrt": by_long_double(lambda x: 1 / np.sqrt(x)),
    "sigmoid": by_long_double(lambda x: 1 / (1 + np.exp(-x))),
    "erf": by_mpmath(mpmath.erf),
    "erfc": by_mpmath(lambda x: mpmath.erfc(min(x, 1000))),
    "lgamma": by_mpmath(lambda x: mpmath.loggamma(x).real),
    "digamma": by_mpmath(mpmath.digamma),
}


def points(dtype, n, rng):
    """Dense where functions bend, spread over all magnitudes, and near 1."""
    sign = rng.choice([-1.0, 1.0], n)
    parts = [
        rng.uniform(-30, 30, n),
        rng.uniform(-2, 2, n),
        sign * np.exp(rng.uniform(-40, 6.7 if dtype == "f64" else 4.6, n)),
        1 + rng.normal(0, 1e-3, n),
        np.ldexp(1 + rng.random(n), rng.integers(-1074, 1020, n))
        if dtype == "f64"
        else np.ldexp(1 + rng.random(n), rng.integers(-149, 125, n)),
    ]
    return np.concatenate(parts).astype(FLOAT[dtype])


def arguments(name, dtype, rng):
    if name in ("erf", "erfc"):
        dense = [rng.uniform(-7, 7, 1200), rng.uniform(0, 27.5 if dtype == "f64" else 10.4, 1200)]
        return (
            np.concatenate([*dense, points(dtype, 300, rng)[-300:], -points(dtype, 300, rng)[-300:]]).astype(
                FLOAT[dtype]
            ),
        )
    if name in ("lgamma", "digamma"):
        return (np.concatenate([rng.uniform(0.001, 3, 1000), np.exp(rng.uniform(-10, 30, 500))]).astype(FLOAT[dtype]),)
    if name == "pow":
        x = np.concatenate([np.exp(rng.uniform(-3, 3, 20000)), 1 + rng.normal(0, 1e-3, 20000)]).astype(FLOAT[dtype])
        return x, np.concatenate([rng.uniform(-25, 25, 20000), rng.uniform(-3e4, 3e4, 20000)]).astype(FLOAT[dtype])
    if name in ("sin", "cos", "tan"):
        near_zeros = rng.integers(-(10**4), 10**4, 10000) * (np.pi / 2)
        x = np.concatenate([points(dtype, 10000, rng), near_zeros]).astype(FLOAT[dtype])
        return (x[np.abs(x) < vecmath.names()[name].far[dtype]],)
    x = points(dtype, 10000, rng)
    if vecmath.names()[name].arity == 1:
        return (x,)
    return x, rng.permutation(x)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", vecmath.names())
def test_error_is_within_the_stated_ulp(name, dtype, form):
    args = arguments(name, dtype, np.random.default_rng(7))
    got, exact = evaluate(name, dtype, form, *args), REFERENCES[name](*args)
    scale = None
    if name == "logaddexp":  # stated against the larger of arguments and result
        scale = np.maximum(np.maximum(abs(args[0]), abs(args[1])), abs(exact))
    error = ulps(got, exact, dtype, scale)
    worst = np.argmax(error)
    assert error[worst] <= vecmath.names()[name].ulp[dtype], [a[worst] for a in args]


SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1.5, 1e-40, -1e-40, 5e-324, np.inf, -np.inf, np.nan, 1e30,
    -1e30,
]  # fmt: skip
NUMPY_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "pow": "power",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", [n for n in vecmath.names() if hasattr(np, NUMPY_NAMES.get(n, n))])
def test_special_values_are_those_of_numpy(name, dtype, form):
    f = getattr(np, NUMPY_NAMES.get(name, name))
    x = np.array(SPECIAL).astype(FLOAT[dtype])
    args = [x] if f.nin == 1 else [a.ravel() for a in np.meshgrid(x, x)]
    with np.errstate(all="ignore"):
        expected = f(*args)
    got = evaluate(name, dtype, form, *args)
    if vecmath.names()[name].far:
        near = ~(np.abs(x) > 1e13)
        got, expected = got[near], expected[near]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_max_ulp(got[~np.isnan(got)], expected[~np.isnan(got)], 4)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", ["exp", "exp2", "expm1", "sinh", "cosh"])
def test_overflow_starts_where_it_must(name, dtype):
    """Around the largest finite result and down through the subnormal ones."""
    top = {"exp": 1.0, "exp2": 1.4426950408889634, "expm1": 1.0}.get(name, 1.0)
    edge = np.log(np.finfo(FLOAT[dtype]).max.astype(np.longdouble)) * top
    x = np.concatenate([np.linspace(edge - 1, edge + 1, 2001), np.linspace(-edge - 25, -edge + 1, 2001)]).astype(
        FLOAT[dtype]
    )
    exact = REFERENCES[name](x)
    got = evaluate(name, dtype, "scalar", x)
    with np.errstate(over="ignore"):
        assert (np.isinf(got) == np.isinf(exact.astype(FLOAT[dtype])))[np.abs(np.abs(x) - edge) > 1e-5].all()
    finite = np.isfinite(got) & (np.abs(exact) < np.finfo(FLOAT[dtype]).max)
    assert ulps(got[finite], exact[finite], dtype).max() <= vecmath.names()[name].ulp[dtype]


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_angles_are_right_or_visibly_missing(name, dtype):
    """Vectors leave them to the C library; scalar code, which must not branch, gives NaN rather than a wrong number."""
    x = np.array([1.0, 2e14, -3e25, 1e38, 2.0] + ([1e300] if dtype == "f64" else [])).astype(FLOAT[dtype])
    vector, scalar = evaluate(name, dtype, "vector", x), evaluate(name, dtype, "scalar", x)
    assert ulps(vector, REFERENCES[name](x), dtype).max() <= 2
    far = np.abs(x) > vecmath.names()[name].far[dtype]
    assert np.isnan(scalar[far]).all() and ulps(scalar[~far], REFERENCES[name](x[~far]), dtype).max() <= 2


def test_exact_results_stay_exact():
    """cos(0) = 1, exp(0) = 1, log(1) = 0, powers of two: no rounding noise where none is due."""
    assert evaluate("cos", "f64", "scalar", np.zeros(1))[0] == 1
    assert evaluate("exp", "f64", "scalar", np.zeros(1))[0] == 1
    assert evaluate("log", "f64", "scalar", np.ones(1))[0] == 0
    k = np.arange(-1022.0, 1023.0)
    np.testing.assert_array_equal(evaluate("exp2", "f64", "scalar", k), 2.0**k)
    np.testing.assert_array_equal(evaluate("log2", "f64", "scalar", 2.0**k), k)
    np.testing.assert_array_equal(
        evaluate("pow", "f64", "scalar", np.full(19, 10.0), np.arange(19.0)), 10.0 ** np.arange(19)
    )
    cubes = np.arange(1.0, 200.0)
    np.testing.assert_array_equal(evaluate("cbrt", "f64", "scalar", cubes**3), cubes)


@pytest.mark.parametrize("dtype", FLOAT)
def test_loops_over_scalar_code_are_vectorized(dtype):
    if llvm.get_host_cpu_features().get("avx2"):
        text = str(engine(dtype, "scalar")[1])
        for name in vecmath.names():
            body = text.split(f"@k_{name}(")[1].split("\n}")[0]
            assert f"x {LLVM[dtype]}>" in body, f"{name}: the loop stayed scalar"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vecmath.symbol("besselk", "f64"), "function must be one of .*atan2.*got 'besselk'"),
        (lambda: vecmath.symbol("exp", "f16"), "dtype must be 'f32' or 'f64', got 'f16'"),
        (lambda: vecmath.symbol("exp", "f32", 0), "width must be >= 1, got 0"),
        (lambda: vecmath.definitions(["exp"]), "symbol must look like"),
    ],
)
def test_errors_name_the_rule(call, message):
    with pytest.raises(ValueError, match=message):
        call()
