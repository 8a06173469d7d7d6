"""A function from a C library as an operator of the core: values from C, derivatives from a rule of one line.

Bessel functions of the first kind stand in every C library as ``double jn(int, double)`` and ``double j0(double)``. The
first is wrapped for arrays by a few lines of C compiled on the spot (skipped where there is no compiler), the second is
used as it is, one element after another. Any language that makes C functions can be called the same way.

    python examples/core/c_function.py [--output c_function.png]

Expected: the second derivative satisfies Bessel's equation to 1e-12.
"""

import argparse
import ctypes
import ctypes.util
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from triskele import core

SOURCE = """
#include <math.h>
#include <stdint.h>
void bessel(const int64_t *order, const double *x, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i++) out[i] = jn((int)*order, x[i]);
}
"""


def bessel_of_arrays(folder):
    """The operator J(order, x), made from C source."""
    (Path(folder) / "bessel.c").write_text(SOURCE)
    subprocess.run(
        [
            shutil.which("gcc") or "cc",
            "-shared",
            "-fPIC",
            "-O2",
            "-o",
            f"{folder}/bessel.so",
            f"{folder}/bessel.c",
            "-lm",
        ],
        check=True,
    )
    function = ctypes.CDLL(f"{folder}/bessel.so").bessel
    bessel = core.custom_op(
        function,
        name="bessel",
        mode="cfunc",
        argtypes=[np.int64, np.float64],
        abi=["in0", "in1", "size1", "out0"],
        out=lambda order, x: x,
        batch="sequential",
    )
    # J_n'(x) = (J_{n-1}(x) - J_{n+1}(x)) / 2: the rule calls the operator, so that every order of derivative follows
    bessel.vjp(lambda ct, out, order, x: (None, ct * (bessel(order - 1, x) - bessel(order + 1, x)) / 2))
    return bessel


def main(output):
    x = np.linspace(0.5, 20.0, 200)
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    j0 = core.custom_op(libm.j0, name="j0", mode="cfunc", argtypes=[float], abi="elementwise")
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        print(f"j0(1) = {j0(1.0):.12f}; no C compiler for the rest")
        return 0.0
    with tempfile.TemporaryDirectory() as folder:
        bessel = bessel_of_arrays(folder)
        print(f"J_0 of our C code and of the C library differ by {np.max(np.abs(bessel(0, x) - j0(x))):.1e}")
        order = 2
        slope = core.jit(core.grad(lambda x: np.sum(bessel(order, x))))
        curvature = core.jit(core.grad(lambda x: np.sum(slope(x))))
        # x^2 y'' + x y' + (x^2 - n^2) y = 0
        residual = x**2 * curvature(x) + x * slope(x) + (x**2 - order**2) * bessel(order, x)
        error = np.max(np.abs(residual)) / np.max(x**2)
        print(f"Bessel's equation is satisfied to {error:.1e}")
        draw(output, x, {"J₂": bessel(order, x), "first derivative": slope(x), "second derivative": curvature(x)})
    return error


def draw(output, x, curves):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    for label, y in curves.items():
        axes.plot(x, y, label=label)
    axes.axhline(0, color="0.8", lw=0.8, zorder=0)
    axes.set(xlabel="x", title="A Bessel function from C, and its derivatives")
    axes.legend(frameon=False)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="c_function.png", help="where the picture goes")
    raise SystemExit(0 if main(parser.parse_args().output) < 1e-12 else 1)
