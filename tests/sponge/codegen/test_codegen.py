"""Generated code: what the algebra may simplify, what the code computes, and modules in the cache folder."""

import math
import multiprocessing
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import core
from triskele.core.compile.source_modules import load_module
from triskele.core.kernels import simd
from triskele.sponge.codegen.algebra import Algebra, Term
from triskele.sponge.codegen.simd_source import Output, expressions

RNG = np.random.default_rng(0)


# ------------------------------------------------------------------------------------------------------------- algebra
def _value(algebra, term, inputs):
    """The number that a term stands for."""
    total = term.number
    for node, n in term.factors:
        kind, *parts = algebra.nodes[node]
        if kind == "input":
            x = inputs[parts[0]]
        elif kind == "sum":
            x = sum(_value(algebra, t, inputs) for t in parts)
        else:
            c, a, b = (_value(algebra, t, inputs) for t in parts)
            x = a if c > 0 else b
        total *= x**n
    return total


@st.composite
def _expressions(draw, depth=4):
    """Operations in reverse Polish order, on three inputs and small whole numbers."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(["x", "y", "z"]) | st.integers(-3, 3))
    op = draw(st.sampled_from(["+", "-", "*", "/", "**", "select"]))
    a, b = draw(_expressions(depth=depth - 1)), draw(_expressions(depth=depth - 1))
    if op == "**":
        return op, a, draw(st.integers(-3, 4))
    return (op, a, b, draw(_expressions(depth=depth - 1))) if op == "select" else (op, a, b)


def _build(algebra, e):
    if isinstance(e, str):
        return algebra.node("input", e)
    if isinstance(e, int):
        return Term(float(e))
    op, a, *rest = e
    a = _build(algebra, a)
    if op == "**":
        return algebra.power(a, rest[0])
    b = _build(algebra, rest[0])
    if op == "select":  # a > 0
        return algebra.select(a if a.factors else Term(float(a.number > 0)), b, _build(algebra, rest[1]))
    if op == "-":
        return algebra.add(a, algebra.negative(b))
    return {"+": algebra.add, "*": algebra.multiply, "/": lambda p, q: algebra.multiply(p, algebra.power(q, -1))}[op](
        a, b
    )


def _evaluate(e, inputs):
    """By plain arithmetic; None where it divides by zero, or comes close to it."""
    if isinstance(e, str):
        return inputs[e]
    if isinstance(e, int):
        return float(e)
    op, *args = e
    values = [_evaluate(a, inputs) if not (op == "**" and k == 1) else a for k, a in enumerate(args)]
    if None in values:
        return None
    a, b = values[:2]
    if (op == "/" and abs(b) < 1e-3) or (op == "**" and b <= 0 and abs(a) < 1e-3):
        return None
    if op == "select":
        return None if abs(a) < 1e-6 else b if a > 0 else values[2]
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b, "**": lambda: a**b}[op]()


@settings(max_examples=300, deadline=None)
@given(_expressions())
def test_simplified_expressions_have_the_same_value(e):
    inputs = {"x": 1.37, "y": -0.71, "z": 2.19}
    expected = _evaluate(e, inputs)
    if expected is None or abs(expected) > 1e6:
        return
    algebra = Algebra()
    found = _value(algebra, _build(algebra, e), inputs)
    # sums of canceling powers lose digits in either order
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_equal_things_become_one_node():
    a = Algebra()
    x, y = a.node("input", "x"), a.node("input", "y")
    assert a.add(x, y) == a.add(y, x)
    assert a.add(x, a.negative(x)) == Term(0.0)
    assert a.multiply(x, a.power(x, -1)) == Term(1.0)
    assert a.add(a.multiply(x, y), x) == a.multiply(x, a.add(y, Term(1.0)))
    assert a.add(a.select(y, x, Term(0.0)), a.select(y, Term(0.0), Term(2.0))) == a.select(y, x, Term(2.0))
    once = a.multiply(x, a.add(x, Term(-1.0)))  # with x x, its derivative's other half, times one sum
    assert a.add(once, a.multiply(x, x)) == a.multiply(x, a.add(a.multiply(Term(2.0), x), Term(-1.0)))


# ------------------------------------------------------------------------------------------------------ generated code
@core.elementwise
def lennard_jones(x, sigma, epsilon):
    ratio = (sigma / x) ** 6
    return 4 * epsilon * (ratio * ratio - ratio)


@core.elementwise
def buckingham(x, a, b):
    return a * math.exp(-b * x) - 1.3 / x**6


@core.elementwise
def branches(x, a, b):
    if x < a:
        return (x - a) ** 2
    return min(b, math.sqrt(x)) + (b * abs(x - 2 * a) ** 1.5 if x > 2 * a else 0.0)


@core.elementwise
def functions(x, a, b):
    y = math.sin(a * x) * math.cos(x) + math.tanh(b) * math.log(x) + math.atan2(x, a) + math.erf(x * b)
    return y + np.cbrt(x) + math.hypot(x, a) + math.expm1(-x) / (1 + x) + np.sign(x - a) * x + (x % a)


@core.elementwise
def constant(x, a, b):
    return 2.5


def _compiled(function, outputs, dtype="float64", width=8):
    """A Python function on arrays that runs the generated lines."""
    lines, names = expressions(function, outputs, dtype=dtype, width=width)
    loads = [f"{n} = simd.load(a{k}, at, {width})" for k, n in enumerate(function.names)]
    stores = [f"simd.store(out, {k} * a0.size + at, {n})" for k, n in enumerate(names)]
    body = "\n".join(f"        {line}" for line in [*loads, *lines, *stores])
    arguments = ", ".join(f"a{k}" for k in range(len(function.names)))
    source = (
        f"import numpy as np\nfrom triskele.core.kernels import simd\nfrom triskele.core.kernels.njit import "
        f"kernel\n\n\n"
        f"@kernel\ndef run({arguments}, out):\n    for at in range(0, a0.size, {width}):\n{body}\n"
    )
    return load_module(source, f"test_{function.__name__}").run


@pytest.mark.parametrize(("dtype", "width", "tolerance"), [("float64", 8, 1e-12), ("float32", 16, 2e-5)])
@pytest.mark.parametrize(
    "function", [lennard_jones, buckingham, branches, functions, constant], ids=lambda f: f.__name__
)
def test_generated_values_and_derivatives(function, dtype, width, tolerance):
    n = 4 * width
    arguments = [RNG.uniform(0.5, 2.0, n).astype(dtype) for _ in function.names]
    paths = [(), ("x",), (function.names[1],), ("x", function.names[2])]
    out = np.zeros((len(paths), n), dtype)
    _compiled(function, [Output(p) for p in paths], dtype, width)(*arguments, out)
    for path, found in zip(paths, out, strict=True):
        exact = (function.partial(*path) if path else function)(*[a.astype(np.float64) for a in arguments])
        np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance * max(1.0, np.abs(exact).max()))


def test_outputs_can_be_multiplied_by_powers():
    lines, names = expressions(lennard_jones, [Output(("x",), (("x", -1),))], known={"1/x": "inverse"})
    assert not any("/" in line for line in lines)  # the known reciprocal is used throughout
    assert len(lines) < 16 and len(names) == 1


def test_even_powers_come_from_known_squares():
    known = {"x**2": "x2", "1/x**2": "inverse", "1/x": "root"}
    slope = [Output(("x",), (("x", -1),))]
    lines, names = expressions(lennard_jones, slope, known=known)
    values = {"sigma": 0.9, "epsilon": 1.3, "x2": 1.21, "inverse": 1 / 1.21}  # neither x nor its inverse
    exec("\n".join(lines), values)
    assert values[names[0]] == pytest.approx(lennard_jones.partial("x")(1.1, 0.9, 1.3) / 1.1, rel=1e-13)
    lines, _ = expressions(buckingham, slope, arguments=["x", "a", "b"], known=known)
    assert not any("inverse" in line or "x2" in line for line in lines)  # exp(-b x) needs x itself


def test_nan_stays_visible():
    x = np.full(8, np.nan)
    out = np.zeros((1, 8))
    for function in (lennard_jones, buckingham, functions):
        _compiled(function, [Output()])(x, np.ones(8), np.ones(8), out)
        assert np.isnan(out).all()


def test_an_operation_without_vector_form_is_named():
    @core.elementwise
    def with_bessel(x):
        import scipy.special

        return scipy.special.j0(x)

    with pytest.raises(NotImplementedError, match="with_bessel: .* got j0"):
        expressions(with_bessel, [Output()])


def test_all_functions_that_are_called_exist():
    from triskele.sponge.codegen import simd_source as codegen

    assert all(hasattr(simd, name) for name in codegen._CALLS.values())


# -------------------------------------------------------------------------------------------------------------- modules
def test_same_source_is_the_same_module():
    source = "VALUE = 3\n"
    assert load_module(source, "test_same") is load_module(source, "test_same")


def test_damaged_file_is_rewritten(tmp_path, monkeypatch):
    monkeypatch.setenv("TRISKELE_CACHE_DIR", str(tmp_path))
    source = "VALUE = 'damaged'\n"
    module = load_module(source, "test_damaged")
    del sys.modules[module.__name__]
    with open(module.__file__, "w") as file:
        file.write("VALUE = ")
    assert load_module(source, "test_damaged").VALUE == "damaged"


def test_modules_that_are_not_used_go(tmp_path, monkeypatch):
    monkeypatch.setenv("TRISKELE_CACHE_DIR", str(tmp_path))
    files = [load_module(f"VALUE = {k}\n", "test_unused").__file__ for k in range(2)]
    os.utime(files[0], (0, 0))
    load_module("VALUE = 2\n", "test_unused")
    assert [os.path.exists(f) for f in files] == [False, True]


def test_without_a_writable_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TRISKELE_CACHE_DIR", str(tmp_path / "file"))
    assert load_module("VALUE = 'elsewhere'\n", "test_unwritable").VALUE == "elsewhere"


_SCRIPT = textwrap.dedent("""
    import numpy as np
    from triskele.sponge.potentials.bonded.terms import bond_potential
    from triskele.sponge.testing import example_system

    @bond_potential
    def quartic(r, k):
        return k * (r - 0.1) ** 4

    system = example_system(quartic([[0, 1]], k=7.0))
    system.forces()
    import sys
    (module,) = [m for name, m in sys.modules.items() if name.startswith("triskele_generated_quartic")]
    stats = module.terms.dispatcher.stats
    print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
""")


def _run_script(folder):
    path = folder / "script.py"
    path.write_text(_SCRIPT)
    environment = os.environ | {"TRISKELE_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_machine_code_is_found_again_by_the_next_process(tmp_path):
    assert _run_script(tmp_path) == "0 1"
    assert _run_script(tmp_path) == "1 0"


@pytest.mark.slow
def test_two_processes_at_once(tmp_path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        results = pool.map(_run_script, [tmp_path, tmp_path])
    assert all(r in ("0 1", "1 0") for r in results)
