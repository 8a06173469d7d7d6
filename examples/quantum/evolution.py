"""A domain wall that melts: Trotter evolution of the transverse-field Ising chain, and the order of its error.

Half of the spins start up and half down; the magnetisation <Z_q>(t) is compared with the exact evolution (matrix
exponential by SciPy). The error of splitting formulas of order 1, 2 and 4 falls with that power of the step.

    python examples/quantum/evolution.py [--spins 10] [--output evolution.png]
"""

import argparse

import numpy as np
from scipy.sparse.linalg import expm_multiply

from triskele import quantum


def main(spins, output):
    bonds = [(f"Z{q} Z{q + 1}", -1.0) for q in range(spins - 1)]
    h = quantum.PauliSum([*bonds, *((f"X{q}", -0.5) for q in range(spins))])
    half = spins // 2
    wall = quantum.basis_state((1 << half) - 1, spins)  # qubits 0 to half - 1 are 1: spins down
    start = quantum.run(wall).statevector()

    times = np.linspace(0, 8, 81)
    signs = 1.0 - 2.0 * ((np.arange(1 << spins)[:, None] >> np.arange(spins)) & 1)
    exact = expm_multiply(-1j * h.matrix(spins), start, 0.0, times[-1], len(times))
    step = quantum.trotter(h, times[1], order=2)
    state, magnetisation = start, []
    for _ in times:
        magnetisation.append(np.abs(state) ** 2 @ signs)
        state = quantum.run(step, initial=state).statevector()
    magnetisation = np.array(magnetisation)
    reference = np.abs(exact) ** 2 @ signs
    print(
        f"{spins} spins to t = {times[-1]:g} in steps of {times[1]:g}, order 2: largest error of <Z> "
        f"{np.abs(magnetisation - reference).max():.2e}"
    )

    steps = np.array([16, 32, 64, 128, 256])
    errors = {}
    for order in (1, 2, 4):
        errors[order] = []
        for n in steps:
            reached = quantum.run(wall + quantum.trotter(h, times[-1], steps=int(n), order=order)).statevector()
            errors[order].append(np.linalg.norm(reached - exact[-1]))
        slope = -np.polyfit(np.log(steps[2:]), np.log(errors[order][2:]), 1)[0]
        print(
            f"order {order}: error {errors[order][0]:.1e} with {steps[0]} steps, {errors[order][-1]:.1e} with "
            f"{steps[-1]}; it falls as (time step)^{slope:.2f}"
        )

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    picture = left.pcolormesh(np.arange(spins), times, magnetisation, cmap="RdBu", vmin=-1, vmax=1, shading="nearest")
    figure.colorbar(picture, ax=left, label=r"$\langle Z_q\rangle$")
    left.set(xlabel="spin q", ylabel="time", title="a domain wall melts (Trotter, order 2)", xticks=range(spins))
    for order, marker in ((1, "o"), (2, "s"), (4, "^")):
        right.loglog(steps, errors[order], marker + "-", label=f"order {order}")
    right.set(xlabel="steps", ylabel="distance from the exact state", title=f"error at t = {times[-1]:g}")
    right.set_xticks(steps, steps)
    right.minorticks_off()
    right.legend(frameon=False)
    right.grid(alpha=0.3)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spins", type=int, default=10)
    parser.add_argument("--output", default="evolution.png", help="where the picture goes")
    args = parser.parse_args()
    main(args.spins, args.output)
