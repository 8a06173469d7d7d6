"""Operators of the user's own in compiled programs: by Python at first, as machine code from many calls on."""

import os
import subprocess
import sys
import textwrap

import numba
import numpy as np
import pytest

from triskele import core
from triskele.core.compile import program


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(program, "NATIVE_AFTER", 20)


def counted_kernel():
    """An operator that counts its calls through Python."""
    calls = []

    @core.custom_op(out=lambda x, k: core.spec(x.shape, x.dtype))
    @numba.njit
    def advance(x, k, out):
        if x[0] > 1e6:
            raise ValueError("too large")
        for i in range(x.size):
            out[i] = k * x[i] + 1

    impl = advance.primitive.impl

    def watched(*args):
        calls.append(1)
        return impl(*args)

    advance.primitive.impl = watched
    return advance, calls


def test_a_kernel_in_a_long_loop_leaves_python(rng):
    advance, calls = counted_kernel()
    f = core.jit(lambda x: core.scan(lambda c, _: (advance(c, 0.5), None), x, None, length=300)[0])
    x = rng.normal(size=4)
    want = x
    for _ in range(300):
        want = 0.5 * want + 1
    for _ in range(2):
        np.testing.assert_allclose(f(x), want, rtol=1e-14)
        assert len(calls) == 20


def test_an_error_of_machine_code_is_the_kernels_own(rng):
    advance, calls = counted_kernel()
    f = core.jit(lambda x: core.scan(lambda c, _: (advance(c, 1.5), None), x, None, length=30)[0])
    assert np.all(np.isfinite(f(rng.normal(size=4)))) and len(calls) == 20
    with pytest.raises(ValueError, match="too large"):
        f(np.full(4, 1e5))


def test_what_does_not_compile_stays_with_python(rng, monkeypatch):
    advance, calls = counted_kernel()
    monkeypatch.setattr(advance.primitive, "native", lambda *specs, **static: 1 / 0)
    f = core.jit(lambda x: core.scan(lambda c, _: (advance(c, 0.5), None), x, None, length=50)[0])
    assert np.all(np.isfinite(f(rng.normal(size=4)))) and len(calls) == 50


@pytest.mark.slow
def test_addresses_are_resolved_again_in_a_second_process(tmp_path):
    source = tmp_path / "program.py"
    source.write_text(
        textwrap.dedent("""
        import numba, numpy as np
        from triskele import core
        from triskele.core.compile import program
        program.NATIVE_AFTER = 5

        @core.custom_op(out=lambda x: core.spec(x.shape, x.dtype))
        @numba.njit
        def halve(x, out):
            for i in range(x.size):
                out[i] = x[i] / 2

        f = core.jit(lambda x: core.scan(lambda c, _: (halve(c), None), x, None, length=12)[0])
        print(f(np.full(3, 4096.0)), "plan from disk" in f._entry((np.ones(3),), {}).function.program.seconds)
    """)
    )
    environment = {**os.environ, "TRISKELE_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run(
            [sys.executable, str(source)], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert runs == ["[1. 1. 1.] False\n", "[1. 1. 1.] True\n"]
