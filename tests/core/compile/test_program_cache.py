"""Programs on disk: what is found again, and that nothing else is."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from triskele import core
from triskele.core.compile.program import Program
from triskele.core.compile.program_cache import key_of
from triskele.core.disk import disk_cache
from triskele.core.errors import IndexOutOfBoundsError
from triskele.core.graph.graph import Spec
from triskele.core.graph.primitive import PRIMITIVES, Primitive
from triskele.core.graph.trace import bind, make_graph

VECTOR = Spec((3,), np.dtype(float))


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRISKELE_CACHE_DIR", str(tmp_path))


def graph(f, *specs):
    return make_graph(f, specs or [VECTOR])[0]


def key(f, *specs):
    return key_of(graph(f, *specs)).keys[0]


def run(f, *args):
    """The result of a program from the disk, which must have been there."""
    for _ in range(2):
        program = Program(graph(lambda *xs: [f(*xs)], *[Spec(a.shape, a.dtype) for a in args]))
    assert "plan from disk" in program.seconds and "emitted" not in vars(program)
    return program.caller(*args)


def test_equal_programs_have_one_key_wherever_they_stand():
    assert key(lambda x: [np.sin(x) + 1]) == key(lambda y: [np.sin(y) + 1])


PROGRAMS = [
    lambda x: [np.sin(x) + 1],
    lambda x: [np.cos(x) + 1],
    lambda x: [np.sin(x) + 2],
    lambda x: [np.sin(x) + 1.0],  # a Python number of another type
    lambda x: [np.sin(x) + np.float32(1)],
    lambda x: [1 + np.sin(x)],
    lambda x: [np.sin(x + 1)],
    lambda x: [np.sin(x) + 1, x],
    lambda x: [np.sin(x[::-1]) + 1],
    lambda x: [np.sin(x) + np.ones(3)],
    lambda x: [np.sin(x) + np.array([1.0, 1.0, 2.0])],
    lambda x: [np.sin(x) + np.broadcast_to(1.0, 3)],
    lambda x: [np.sin(x) + 0.0],
    lambda x: [np.sin(x) + -0.0],
    lambda x: [core.scan(lambda c, _: (np.sin(c), None), x, None, length=2)[0]],
    lambda x: [core.scan(lambda c, _: (np.sin(c), None), x, None, length=3)[0]],
    lambda x: [core.scan(lambda c, _: (np.cos(c), None), x, None, length=3)[0]],
]


def test_different_programs_have_different_keys():
    assert len({key(f) for f in PROGRAMS}) == len(PROGRAMS)


def test_shapes_and_dtypes_count():
    found = {
        key(lambda x: [np.sin(x)], Spec(s, np.dtype(d))) for s in [(), (3,), (3, 1)] for d in (np.float32, np.float64)
    }
    assert len(found) == 6


def test_results_from_disk(rng):
    x, table = rng.normal(size=50), rng.normal(size=300)
    np.testing.assert_allclose(run(lambda x: np.tanh(x) * 2, x), np.tanh(x) * 2, rtol=1e-14)
    np.testing.assert_array_equal(run(lambda x: x + table[:50], x), x + table[:50])  # a constant from the graph
    np.testing.assert_allclose(run(lambda x: np.linalg.svd(np.outer(x, x))[1][:1], x), [np.sum(x * x)])  # a host call


def test_an_error_from_disk_names_the_line_of_this_process(rng):
    x = rng.normal(size=4)
    Program(graph(lambda x, i: [x[i]], Spec((4,), x.dtype), Spec((2,), np.dtype(int))))
    program = Program(graph(lambda x, i: [x[i]], Spec((4,), x.dtype), Spec((2,), np.dtype(int))))
    assert "plan from disk" in program.seconds
    with pytest.raises(IndexOutOfBoundsError) as error:
        program.caller(x, np.array([1, 7]))
        program.module.raise_pending()
    line = test_an_error_from_disk_names_the_line_of_this_process.__code__.co_firstlineno + 3
    assert f"{os.path.basename(__file__)}:{line}" in str(error.value)


def test_primitives_with_rules_from_elsewhere_are_not_stored():
    p = Primitive("test stored twice", lambda x: 2 * x, lambda x: x, kind="elementwise", emit=lambda b, x: b.add(x, x))
    p.loop = lambda x: (x.dtype, x.dtype)
    try:
        assert key_of(graph(lambda x: [bind(p, x)])) is None
    finally:
        del PRIMITIVES[p.name]


def test_a_lost_object_is_made_again(rng):
    f, x = lambda x: [np.sinh(x)], rng.normal(size=3)
    first = Program(graph(f))
    os.unlink(disk_cache._path(first.module.key))
    np.testing.assert_allclose(Program(graph(f)).caller(x), np.sinh(x), rtol=1e-14)


def test_a_second_process_makes_no_plan(tmp_path):
    script = textwrap.dedent("""
        import numpy as np
        from triskele import core
        f = core.jit(core.value_and_grad(lambda x: np.sum(core.scan(lambda c, y: (c * y, np.sin(c)), 1.0, x)[1])))
        print(repr(f(np.linspace(0.5, 1, 4))), "emit" in f._entry((np.ones(4),), {}).function.program.seconds)
    """)
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1].replace("False", "True") and "False" in runs[1]
