"""Random NumPy programs: NumPy, the eager transforms, `jit` and `vmap` must agree in values, dtypes, shapes and NaN
places.

`python -m tests.core.fuzz_programs --count 20000 --seed 7` runs many, in subprocesses, so that an abort of the
interpreter is a finding like any other. Each finding is shrunk and printed as a function to paste.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from tests.core.random_programs import Program, defined_casts, fits, make

# -- comparison --------------------------------------------------------------------------------------------------------

TOLERANCE = {"float64": 1e-8, "complex128": 1e-8, "float32": 2e-3, "complex64": 2e-3, "float16": 0.06}


def difference(found, wanted, rough):
    """Describe the difference between two lists of results, or return None.

    `rough` is the largest tolerance on the way.
    """
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {k}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        if a.dtype.kind in "fc":
            if not np.array_equal(np.isnan(a), np.isnan(b)):
                return f"result {k}: NaN at other places, {a.tolist()} instead of {b.tolist()}"
            with np.errstate(all="ignore"):
                tolerance = max(rough, TOLERANCE[a.dtype.name])
                if not np.allclose(a, b, rtol=tolerance, atol=10 * tolerance, equal_nan=True):
                    return f"result {k}: {a.tolist()} instead of {b.tolist()}"
        elif not np.array_equal(a, b):
            return f"result {k}: {a.tolist()} instead of {b.tolist()}"
    return None


def numpy_results(f, inputs):
    with defined_casts():
        return [np.array(r) for r in f(*[x.copy() for x in inputs])]


def roughness(program, inputs):
    """The coarsest dtype that appears anywhere decides how well results can agree."""
    text = program.text()
    names = {x.dtype.name for x in inputs} | {d for d in TOLERANCE if f"'{d}'" in text}
    if "int8" in text or any(x.dtype.name in ("int8", "uint8", "bool") for x in inputs):
        names |= {"float16"}  # functions of 8-bit integers are float16
    return max([TOLERANCE[n] for n in names if n in TOLERANCE], default=1e-8)


def check(program, forms=("jit", "vjp", "jvp", "vmap", "grad")):
    """Return the difference as (form, text) or None.

    Errors of the package that name what they refuse are not differences.
    """
    from triskele import core
    from triskele.core.errors import TracerError

    f, inputs = program.function(), [x for _, x in program.inputs]
    try:
        wanted = numpy_results(f, inputs)
    except Exception:  # noqa: BLE001  shrunk too far
        return None
    if not wanted:
        return None
    rough = roughness(program, inputs)
    floats = [k for k, x in enumerate(inputs) if x.dtype.kind in "fc"]

    def of_floats(*xs):
        full = [x.copy() for x in inputs]
        for k, x in zip(floats, xs, strict=True):
            full[k] = x
        return f(*full)

    chosen = [inputs[k].copy() for k in floats]
    other = [x[::-1].copy() if x.ndim else x + x.dtype.type(1) if x.dtype.kind != "b" else x for x in inputs]
    runs = {
        "jit": lambda: core.jit(f)(*[x.copy() for x in inputs]),
        "vjp": lambda: core.vjp(of_floats, *chosen)[0] if floats else wanted,
        "jvp": lambda: core.jvp(of_floats, chosen, [np.ones_like(x) for x in chosen])[0] if floats else wanted,
        "vmap": lambda: core.vmap(f)(*[np.stack([x, y]) for x, y in zip(inputs, other, strict=True)]),
    }
    for form in forms:
        if form == "grad":
            continue
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = runs[form]()
        except TracerError as error:
            if REFUSALS is not None:
                REFUSALS.append((form, str(error)[:100]))
            continue
        except Exception as error:  # noqa: BLE001
            if any(text in str(error) for text in NAMED):
                continue
            return form, f"{type(error).__name__}: {error}"
        if form == "vmap":
            for n, given in enumerate((inputs, other)):
                try:
                    each = numpy_results(f, given)
                except Exception:  # noqa: BLE001
                    continue
                if not all(fits(v) for v in each):
                    continue
                text = difference([np.asarray(r)[n] for r in found], each, rough)
                if text:
                    return form, text
            continue
        text = difference(found, wanted, rough)
        if text:
            return form, text
    return gradient_difference(program, f, inputs) if program.smooth and "grad" in forms else None


def gradient_difference(program, f, inputs):
    """Eager gradient, compiled gradient and central differences along one direction."""
    from triskele import core
    from triskele.core.errors import TracerError

    rng = np.random.default_rng(program.seed)
    weights = [
        rng.normal(size=np.shape(w)) if np.asarray(w).dtype.kind in "f" else None for w in numpy_results(f, inputs)
    ]
    if all(w is None for w in weights):
        return None

    def loss(args):
        return sum([np.sum(w * r) for w, r in zip(weights, f(*args), strict=True) if w is not None])

    along = [rng.normal(size=x.shape) for x in inputs]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            eager = core.grad(loss)([x.copy() for x in inputs])
            compiled = core.jit(core.grad(loss))([x.copy() for x in inputs])
        except TracerError:
            return None
        except TypeError as error:
            if "must return a real scalar" in str(error):
                return None
            return "grad", f"TypeError: {error}"
        except Exception as error:  # noqa: BLE001
            return "grad", f"{type(error).__name__}: {error}"
        found = []
        for h in (1e-5, 4e-5):
            ends = [loss([x + s * h * d for x, d in zip(inputs, along, strict=True)]) for s in (1, -1)]
            found.append((ends[0] - ends[1]) / (2 * h))
    text = difference(compiled, eager, 1e-7)
    if text:
        return "grad", f"jit {text}"
    slope = sum(np.sum(g * d) for g, d in zip(eager, along, strict=True))
    if abs(found[0] - found[1]) < 1e-4 * (1 + abs(found[0])) and abs(slope - found[0]) > 1e-3 * (1 + abs(slope)):
        return "grad", f"{slope} along a direction, {found[0]} by differences"
    return None


REFUSALS: list | None = None
NAMED = (
    "complex numbers have no order",
    "a complex value cannot be assigned into",
    "is not supported for traced values",
    "expected at least one element",
    "is being differentiated (np.floor(x) or core.stop_gradient(x)",
)  # refused by name


def shrink(program, failure):
    """The program without the statements and dimensions that the failure does not need."""
    form = failure[0]
    forms = (form,)
    while True:
        for k in reversed(range(len(program.statements))):
            fewer = Program(
                program.seed, [*program.statements[:k], *program.statements[k + 1 :]], program.inputs, program.smooth
            )
            again = check(fewer, forms)
            if again is not None:
                program, failure = fewer, again
                break
        else:
            return program, failure


# -- running many ------------------------------------------------------------------------------------------------------


def worker(start, count, progress, seconds=1e9):
    """Run programs one after the other; a line of JSON for each finding."""
    global REFUSALS
    faulthandler.enable()
    end = time.time() + seconds
    REFUSALS = []
    done = 0
    for seed in range(start, start + count):
        Path(progress).write_text(str(seed))
        if os.environ.get("TRISKELE_FUZZ_ABORT") == str(seed):  # for the test of this
            os.abort()
        program = make(seed)
        failure = check(program)
        done += 1
        if failure is not None:
            small, failure = shrink(program, failure)
            inputs = {n: f"{x.dtype} {x.tolist()}" for n, x in small.inputs}
            print(
                json.dumps(
                    {"seed": seed, "form": failure[0], "what": failure[1][:600], "text": small.text(), "inputs": inputs}
                ),
                flush=True,
            )
        if time.time() > end:
            break
    refused: dict[str, int] = {}
    for form, text in REFUSALS:
        refused[f"{form}: {text}"] = refused.get(f"{form}: {text}", 0) + 1
    print(json.dumps({"done": done, "refused": refused}), flush=True)


def run(count, seed, chunk=200, show=True, limit=600.0):
    """Run `count` programs in subprocesses of `chunk` programs each: (programs run, findings, refusals)."""
    findings, refused, done, at, end = [], {}, 0, seed, seed + count
    while at < end:
        n = min(chunk, end - at)
        with tempfile.TemporaryDirectory() as folder:
            progress = Path(folder, "progress")
            environment = {**os.environ, "TRISKELE_CACHE_DIR": folder}
            command = [sys.executable, "-m", "tests.core.fuzz_programs", "--worker", str(at), str(n), str(progress)]
            try:
                result = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    env=environment,
                    timeout=limit,
                    cwd=Path(__file__).parents[2],
                    check=False,
                )
                output, code, errors = result.stdout, result.returncode, result.stderr
            except subprocess.TimeoutExpired as late:
                output, code, errors = (late.stdout or b"").decode(), "time out", ""
            for line in output.splitlines():
                record = json.loads(line)
                if "done" in record:
                    for k, v in record["refused"].items():
                        refused[k] = refused.get(k, 0) + v
                else:
                    findings.append(record)
                    if show:
                        print(
                            f"{record['form']} (seed {record['seed']}): "
                            f"{record['what']}\n{record['text']}{record['inputs']}\n",
                            flush=True,
                        )
            last = at + n - 1 if code == 0 else int(progress.read_text())
            if code != 0:
                findings.append(
                    {
                        "seed": last,
                        "form": "abort",
                        "what": f"{code}: {errors[-1500:]}",
                        "text": make(last).text(),
                        "inputs": {},
                    }
                )
                if show:
                    print(f"ABORT {code} (seed {last})\n{make(last).text()}{errors[-1500:]}", flush=True)
            done += last + 1 - at
            at = last + 1
            if show:
                print(f"-- {done} programs, {len(findings)} findings", flush=True)
    return done, findings, refused


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", nargs=3, metavar=("START", "COUNT", "PROGRESS"))
    options = parser.parse_args()
    if options.worker:
        worker(int(options.worker[0]), int(options.worker[1]), options.worker[2])
        return 0
    start = time.time()
    done, findings, refused = run(options.count, options.seed)
    for text, n in sorted(refused.items(), key=lambda kv: -kv[1]):
        print(f"{n:6d} refused  {text}")
    print(
        f"{done} programs, {len(findings)} differences, {sum(f['form'] == 'abort' for f in findings)} aborts, "
        f"{time.time() - start:.0f} s"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
