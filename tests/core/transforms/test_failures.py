"""`assert` and `raise` on traced values: compiled functions raise what Python raises.

The statements are to be Python's own: PYTEST_DONT_REWRITE.
"""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from triskele import core
from triskele.core.errors import TracerError


class Unphysical(Exception):
    def __init__(self, where, value):
        super().__init__(where)
        self.value = value


def root(x):
    if x < 0:
        raise ValueError("x must not be negative")
    return np.sqrt(x)


def positive(x):
    assert np.all(x > 0), "all must be positive"
    return np.log(x)


def rounds(x):
    k = 0
    while x > 1:
        x = x / 2
        k += 1
        if k > 5:
            raise RuntimeError("more than 5 rounds")
    return x, k


def rows(x):
    total = np.zeros(())
    for row in x:
        if row[0] > 2:
            raise Unphysical("a row begins above 2", 7)
        elif row[1] > 2:
            raise OverflowError
        total = total + np.sum(row)
    return total


def branch(x):
    if x > 0:
        y = np.log(x)
        assert y > 0
    else:
        y = -x
        if y > 3:
            raise ValueError("too small")
    return {"y": y, "number": 3}


def nested(x):
    return root(x - 1) + positive(x)


def outcome(f, x):
    try:
        return f(x)
    except Exception as error:  # noqa: BLE001  all kinds are compared
        return type(error), error.args


CASES = [
    (root, [4.0, 0.0, -1.0, np.nan]),
    (positive, [np.array([1.0, 2.0]), np.array([1.0, -2.0])]),
    (rounds, [0.5, 9.0, 63.0, 1e9]),
    (branch, [2.0, 0.5, -1.0, -4.0]),
    (nested, [2.0, 0.5, -1.0]),
    (rows, [np.ones((9, 2)), np.array([[1.0, 1.0], [3.0, 1.0], [1.0, 3.0]]), np.array([[1.0, 3.0], [3.0, 1.0]])]),
]


@pytest.mark.parametrize(("f", "arguments"), CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_compiled_functions_raise_what_python_raises(f, arguments):
    compiled = core.jit(f)
    for x in [*arguments, *arguments[::-1]]:
        wanted, found = outcome(f, x), outcome(compiled, x)
        if isinstance(wanted, tuple) and isinstance(wanted[0], type):
            assert found == wanted
        else:
            for a, b in zip(core.tree.leaves(found), core.tree.leaves(wanted), strict=True):
                np.testing.assert_allclose(a, b)


def test_derivatives_and_batches_fail_too():
    x = np.array([1.0, 4.0, 9.0])
    for f in (core.jit(core.vmap(root)), core.jit(core.vmap(core.grad(root)))):
        f(x)
        with pytest.raises(ValueError, match="negative"):
            f(x - 2)
    for f in (
        core.jit(core.grad(root)),
        core.jit(lambda x: core.jvp(root, (x,), (1.0,))[1]),
        core.jit(core.grad(core.grad(root))),
    ):
        f(4.0)
        with pytest.raises(ValueError, match="negative"):
            f(-4.0)
    np.testing.assert_allclose(core.jit(core.grad(root))(4.0), 0.25)


def test_a_scan_stops_at_the_first_error():
    def step(carry, x):
        assert x < 3, f"got {x}"
        return carry + x, carry

    f = core.jit(lambda xs: core.scan(step, 0.0, xs)[0])
    assert f(np.array([0.0, 1.0, 2.0])) == 3
    with pytest.raises(AssertionError, match=r"got \{x\}"):  # it has no value when the message is made
        f(np.array([0.0, 3.0]))


def test_the_place_is_told():
    with pytest.raises(ValueError, match="negative") as caught:
        core.jit(root)(-1.0)
    assert any(f"{__file__}:{root.__code__.co_firstlineno + 2}" in note for note in caught.value.__notes__)


def test_exceptions_keep_their_attributes():
    with pytest.raises(Unphysical, match="above 2") as caught:
        core.jit(rows)(np.full((9, 2), 5.0))
    assert caught.value.value == 7


def test_programs_on_disk_raise(tmp_path, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import numpy as np
        from triskele import core
        @core.jit
        def f(x):
            assert x > 0, "positive"
            return np.sqrt(x)
        f(4.0)
        try:
            f(-1.0)
        except AssertionError as error:
            print(error.args[0], f.program(1.0).module.cached)
    """)
    )
    monkeypatch.setenv("TRISKELE_CACHE_DIR", str(tmp_path / "cache"))
    said = [
        subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert said == [["positive", "False"], ["positive", "True"]]


def test_what_cannot_be_told_is_refused():
    def returns(x):
        if x > 0:
            return x
        raise ValueError("not positive")

    def check(x):
        assert x > 0

    def unused(x):
        check(x)
        return x

    with pytest.raises(TracerError, match="this branch returns or raises"):
        core.jit(returns)(1.0)
    with pytest.raises(TracerError, match="must return an array"):
        core.jit(unused)(1.0)


def test_conditions_that_are_known_raise_while_the_function_is_traced():
    def f(x, n):
        if n < 0:
            raise ValueError(f"n must not be negative, got {n}")
        assert x.ndim == 1, "a vector"
        return x * n

    compiled = core.jit(f, static_argnames="n")
    np.testing.assert_array_equal(compiled(np.ones(2), n=3), [3, 3])
    with pytest.raises(ValueError, match="got -1"):
        compiled(np.ones(2), n=-1)
    with pytest.raises(AssertionError, match="a vector"):
        compiled(np.ones((2, 2)), n=1)
