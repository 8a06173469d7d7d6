"""Write benzene.npz and benzene.json: GROMACS runs of alchemtest, and what alchemlyb says about them.

Run ``python make_benzene.py PATH`` with alchemlyb (2.5) installed; PATH is a checkout of alchemistry/alchemtest from
GitHub. The runs (benzene in water: I. Kenney, CC0) are thinned to every 20th record, so that they fit into a test.
"""

import bz2
import json
import sys
from pathlib import Path

import alchemlyb
import numpy as np
import pandas as pd
from alchemlyb.estimators import BAR, MBAR, TI
from alchemlyb.parsing.gmx import extract_dHdl, extract_u_nk

here, runs = Path(__file__).parent, Path(sys.argv[1]) / "alchemtest" / "gmx" / "benzene"
data, numbers = {}, {"alchemlyb": alchemlyb.__version__, "temperature": 300, "unit": "RT"}
for leg in ("Coulomb", "VDW"):
    files = sorted((runs / leg).glob("*/dhdl.xvg.bz2"))
    rows = []
    for file in files:
        lines = [line for line in bz2.open(file, "rt") if not line.startswith(("#", "@"))]
        rows.append(np.array([line.split() for line in lines[::20]], np.float32)[:201])
    stacked = np.array(rows)
    named = [line.split()[-1] for line in bz2.open(file, "rt") if line.startswith("@ s") and " to " in line]
    columns = 2 + np.unique(named, return_index=True)[1]  # 0.75 stands there twice
    data[f"{leg}/slopes"], data[f"{leg}/energies"] = stacked[:, :, 1], stacked[:, :, columns]
    data[f"{leg}/lambdas"] = np.array([int(file.parent.name) / 1000 for file in files])
    u_nk = pd.concat([extract_u_nk(str(file), T=300).iloc[::20][:201] for file in files])
    dhdl = pd.concat([extract_dHdl(str(file), T=300).iloc[::20][:201] for file in files])
    numbers[leg] = {}
    for name, estimator, table in (("mbar", MBAR(), u_nk), ("bar", BAR(), u_nk), ("trapezoid", TI(), dhdl)):
        fitted = estimator.fit(table)
        error = fitted.d_delta_f_.iloc[0, -1]  # BAR has that of neighbors only
        numbers[leg][name] = [float(fitted.delta_f_.iloc[0, -1]), None if np.isnan(error) else float(error)]
        if name == "mbar":
            numbers[leg]["overlap"] = np.asarray(fitted.overlap_matrix).diagonal(1).tolist()
np.savez_compressed(here / "benzene.npz", **data)
(here / "benzene.json").write_text(json.dumps(numbers, indent=1) + "\n")
