"""Write `plumed.npz`: random walks of up to three variables, and what PLUMED's OPES says of them.

``python make_reference.py PLUMED`` with the path of the program `plumed`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

CASES = {
    "given": (2, "OPES_METAD", "BARRIER=30 PACE=3 SIGMA=0.3,0.2"),
    "measured": (2, "OPES_METAD", "BARRIER=40 PACE=4 BIASFACTOR=8 SIGMA_MIN=0.08,0.05"),
    "flat": (1, "OPES_METAD", "BARRIER=25 PACE=2 SIGMA=0.15 BIASFACTOR=inf COMPRESSION_THRESHOLD=0.7"),
    "explore": (2, "OPES_METAD_EXPLORE", "BARRIER=30 PACE=3 SIGMA=0.3,0.2"),
    "explore-measured": (3, "OPES_METAD_EXPLORE", "BARRIER=35 PACE=5"),
}
STATES = 600


def walk(rng, d):
    """States of an Ornstein-Uhlenbeck process [STATES, d]; with more than one variable the first is an angle."""
    scale, x = np.array([1.2, 0.5, 0.3][:d] if d > 1 else [0.6]), np.zeros((STATES, d))
    for k in range(1, STATES):
        x[k] = 0.93 * x[k - 1] + rng.normal(size=d) * 0.35 * scale
    if d > 1:
        x[:, 0] += 2.6
        x[:, 0] -= 2 * np.pi * np.round(x[:, 0] / (2 * np.pi))
    return x


def run(plumed, x, action, options):
    """Bias, c(t), Z, effective samples and number of Gaussians at each state."""
    names = ["phi", "x", "y"][: x.shape[1]] if x.shape[1] > 1 else ["x"]
    head = "#! FIELDS time " + " ".join(names) + "\n"
    if "phi" in names:
        head += "#! SET min_phi -pi\n#! SET max_phi pi\n"
    rows = [" ".join([str(k), *(f"{v:.17g}" for v in row)]) for k, row in enumerate(x)]
    lines = [f"{v}: READ FILE=in VALUES={v} IGNORE_FORCES" for v in names]
    lines += [
        f"o: {action} ARG={','.join(names)} TEMP=300 {options}",
        "PRINT ARG=o.bias,o.rct,o.zed,o.neff,o.nker FILE=out FMT=%.15g STRIDE=1",
    ]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in").write_text(head + "\n".join(rows) + "\n")
        Path(folder, "plumed.dat").write_text("\n".join(lines) + "\n")
        subprocess.run(
            [plumed, "driver", "--noatoms", "--plumed", "plumed.dat", "--timestep", "1", "--trajectory-stride", "1"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        return np.loadtxt(Path(folder, "out"))[:STATES, 1:]


def main(plumed):
    rng, kept = np.random.default_rng(7), {}
    for name, (d, action, options) in CASES.items():
        kept[f"{name}/values"] = x = walk(rng, d)
        kept[f"{name}/expected"] = run(plumed, x, action, options)
    np.savez_compressed(Path(__file__).parent / "plumed.npz", **kept)


if __name__ == "__main__":
    main(sys.argv[1])
