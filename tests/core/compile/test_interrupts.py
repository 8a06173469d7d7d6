"""Signals end compiled loops: each of these would run for minutes."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from triskele import core

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="loops look at signals where there are POSIX threads")


def counted(x):
    return core.fori_loop(0, 10**11, lambda i, y: y * 0.999 + 1, x)


def conditional(x):
    while x[0] > -1:
        x = x * 0.99 + 1e-3
    return x


def heavy(x):
    return core.fori_loop(0, 10**8, lambda i, y: y @ y / np.sum(y), np.outer(x, x) + np.ones((100, 100)))


def nested(x):
    return core.fori_loop(0, 10**5, lambda i, y: core.fori_loop(0, 10**6, lambda j, z: z * 0.9 + 1, y), x)


class Alarm(Exception):
    pass


@pytest.fixture
def alarm():
    def ring(number, frame):
        raise Alarm("it rang")

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("f", [counted, conditional, heavy, nested], ids=lambda f: f.__name__)
def test_handlers_of_signals_run(f, alarm):
    x = np.ones(100)
    compiled = core.jit(f)
    compiled.lower(x)
    for _ in range(2):
        alarm(0.3)
        with pytest.raises(Alarm, match="it rang"):
            compiled(x)
    assert core.jit(lambda x: core.fori_loop(0, 5000, lambda i, y: y + 1, x))(0.0) == 5000


def test_counters_are_not_arrays():
    program = core.jit(counted).program(0.3)
    assert sum(a.nbytes for a in getattr(program, "_arrays", [])) + program.scratch < 1000


BUSY = """
import signal, sys, threading
import numpy as np
from triskele import core

class Alarm(Exception):
    pass

def ring(number, frame):
    raise Alarm

def counted(x):
    return core.fori_loop(0, 10**11, lambda i, y: y * 0.999 + 1, x)

hosted = core.custom_op(lambda x: x * 2.0, out=lambda x: core.spec(x.shape, x.dtype), mode="python", name="twice")

def host_calls(x):
    return core.fori_loop(0, 10**9, lambda i, y: hosted(y) * 0.5, x)

compiled = core.jit(globals()[sys.argv[1]])
compiled.lower(np.ones(4))
signal.signal(signal.SIGALRM, ring)
done = threading.Event()
busy = threading.Thread(target=lambda: any(False for _ in iter(done.is_set, True)))
busy.start()
rung = 0
while rung < 5:
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        compiled(np.ones(4))
    except Alarm:
        rung += 1
done.set()
print(rung)
"""


@pytest.mark.parametrize("f", ["counted", "host_calls"])
def test_handlers_run_beside_a_busy_thread(f):
    """A handler may raise where a host function begins, before its first line."""
    done = subprocess.run([sys.executable, "-c", BUSY, f], capture_output=True, text=True, timeout=120)
    assert done.stdout == "5\n", done.stderr


def test_ctrl_c(tmp_path):
    script = tmp_path / "loop.py"
    script.write_text(
        textwrap.dedent("""
        from triskele import core
        f = core.jit(lambda x: core.fori_loop(0, 10**11, lambda i, y: y * 0.999 + 1, x))
        f.lower(1.0)
        try:
            print("ready", flush=True)
            f(1.0)
        except KeyboardInterrupt:
            print("stopped")
    """)
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "stopped\n"
