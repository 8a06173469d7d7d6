"""Compiled forms of elementwise functions over all magnitudes of float32 and float64: a new one is tested by existing.

What NumPy and SciPy compute in float64 is the reference. A form may be as far from it as rounding the arguments a few
times would take it, and a few units in the last place more.
"""

import itertools

import numpy as np
import pytest
import scipy.special as sp

import triskele.core.ops  # noqa: F401  registers the primitives
from triskele import core
from triskele.core.graph.primitive import PRIMITIVES
from triskele.core.tensor import FUNCTIONS, UFUNCS


def forms():
    """The ufunc of every primitive that has a compiled form of one or two real numbers."""
    for name, p in sorted(PRIMITIVES.items()):
        f = getattr(sp, name) if f"scipy.special.{name}" in FUNCTIONS else getattr(np, name, None)
        known = f in UFUNCS or f"scipy.special.{name}" in FUNCTIONS
        if p.kind == "elementwise" and p.emit and known and {"f->f", "ff->f"} & set(f.types):
            yield name, f


FORMS = dict(forms())


def magnitudes(dtype, n):
    """Zero, subnormal numbers, powers over the whole range, whole and half numbers, both sides of 1, infinity, NaN."""
    info, rng = np.finfo(dtype), np.random.default_rng(0)
    low, high = np.log2([float(info.smallest_subnormal), float(info.max)])
    powers = 2.0 ** np.concatenate([np.linspace(low, high - 1e-6, n), rng.uniform(-12, 12, n // 2)])
    ones = 2.0 ** -np.arange(1, info.nmant + 1)
    x = np.concatenate([[0, info.tiny, info.max, np.inf], np.arange(0.5, 180, 0.5), 1 + ones, 1 - ones, powers])
    return np.concatenate([x, -x, [np.nan]]).astype(dtype)


def gammaln(x):
    """SciPy's is infinite at subnormal numbers."""
    return np.where(np.abs(x) < 1e-20, -np.log(np.abs(x)), sp.gammaln(x))


def psi(x):
    """By the recurrence where SciPy's loses its digits, near the pole at -1."""
    return np.where((x > -1) & (x < 0), sp.psi(x + 1) - 1 / x, sp.psi(x))


def kl_div(x, y):
    """SciPy's is infinite where the quotient overflows; that of rel_entr is not."""
    entropy = sp.rel_entr(x, y)
    return np.where(np.isfinite(entropy), entropy - x + y, sp.kl_div(x, y))


def pseudo_huber(delta, r):
    """In long double, since SciPy's square overflows; infinite arguments by their limits."""
    delta, r = np.asarray(delta, np.longdouble), np.asarray(r, np.longdouble)
    value = r * r * (delta / (delta + np.hypot(delta, r)))
    value = np.where(np.isinf(delta) & np.isfinite(r), r * r / 2, value)
    value = np.where(np.isinf(r) & np.isfinite(delta), np.inf, value)
    return np.where(delta < 0, np.inf, np.where((delta == 0) | (r == 0), 0, value))


REFERENCES = {"gammaln": gammaln, "psi": psi, "kl_div": kl_div, "pseudo_huber": pseudo_huber}
# These look at how a number is stored: NumPy's float32 is the reference, not its float64.
STORED = {"nextafter", "spacing"}


def envelope(reference, args, eps, least):
    """The smallest and the largest value of the function within a few roundings of its arguments."""
    steps = [np.where((a == 0) | ~np.isfinite(a), 0, 4 * np.maximum(eps * np.abs(a), least)) for a in args]
    near = [(a, a - step, a + step) for a, step in zip(args, steps, strict=True)]
    values = np.array([np.asarray(reference(*corner), float) for corner in itertools.product(*near)])
    return np.fmin.reduce(values), np.fmax.reduce(values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FORMS)
def test_compiled_forms_hold_over_all_magnitudes(name, dtype):
    f, info = FORMS[name], np.finfo(dtype)
    x = magnitudes(dtype, 2000 if f.nin == 1 else 300)
    args = [x] if f.nin == 1 else [np.random.default_rng(k).choice(x, 40_000) for k in (1, 2)]
    run = core.jit(lambda *args: f(*args))
    got = run(*args)
    near = np.all([np.abs(a) < 1e12 for a in args], axis=0)  # beyond it, a sine sends the whole array to NumPy
    got[near] = run(*[np.where(near, a, 1) for a in args])[near]
    eps, least, tiny = (float(v) for v in (info.eps, info.smallest_subnormal, info.tiny))
    with np.errstate(all="ignore"):
        reference = REFERENCES.get(name, f)
        if name in STORED:
            want = low = high = f(*args)
            slack = 0
        else:
            wide = [a.astype(np.float64) for a in args]
            want = np.asarray(reference(*wide), float)
            low, high = envelope(reference, wide, eps, least)
            slack = 8 * eps * (np.abs(wide[0]) + np.abs(wide[1]) if name == "kl_div" else np.abs(want))  # a difference
            slack = slack + (tiny if dtype == np.float64 else least)  # SciPy takes subnormal results for 0
        low, high = (low - slack).astype(dtype), (high + slack).astype(dtype)  # infinite beyond the largest number
        right = (got >= low) & (got <= high) | (got == want.astype(dtype)) | np.isnan(got) & np.isnan(want)
        right &= np.isnan(got) == np.isnan(want)
    wrong = [
        (*[float(a[k]) for a in args], "got", float(got[k]), "expected", float(want[k]))
        for k in np.flatnonzero(~right)[:5]
    ]
    assert got.dtype == dtype and not wrong


def test_slopes_of_pseudo_huber_where_the_square_of_the_quotient_overflows():
    for dtype, far in ((np.float32, 1e30), (np.float64, 1e200)):
        for run in (lambda f: f, core.jit):
            slope = run(core.grad(sp.pseudo_huber, argnums=1))
            assert slope(dtype(2), dtype(far)) == 2 and slope(dtype(2), dtype(-far)) == -2
            assert slope(dtype(far), dtype(3)) == pytest.approx(3, rel=1e-6)
