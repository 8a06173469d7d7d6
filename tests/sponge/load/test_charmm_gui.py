"""A folder in the layout of CHARMM-GUI's files for GROMACS."""

import shutil

import numpy as np
import pytest

from tests.sponge.differential import gmx
from tests.sponge.reference import DATA
from triskele import sponge
from triskele.sponge.errors import FileFormatError

FOLDER = DATA / "charmm_gui"
FILES = FOLDER / "topol.top", FOLDER / "step5_input.gro"
CHARMM = {"cutoff": 1.2, "switch": 1.0, "modifier": "force-switch", "dispersion_correction": False}


def defines(mdp):
    """Macros of the line ``define = -DNAME -DNAME=VALUE`` of a run's settings."""
    (line,) = (row for row in mdp.read_text().split("\n") if row.startswith("define"))
    return dict((word[2:].split("=") + [""])[:2] for word in line.partition("=")[2].split())


def test_it_loads_and_runs():
    macros = defines(FOLDER / "step6.1_equilibration.mdp")
    assert macros == {"POSRES": "", "POSRES_FC_LIPID": "1000.0", "DIHRES": "", "DIHRES_FC": "1000.0"}
    system = sponge.load(*FILES, defines=macros, constraints="h-bonds", **CHARMM)
    held = system["position_restraint"]
    assert held.atoms.tolist() == [0, 5] and held.params["k"].tolist() == [[0, 0, 1000]] * 2
    moved = system.positions + [0.3, -0.2, 0.1]
    assert system.energy_terms(moved)["position_restraint"] == pytest.approx(2 * 500 * 0.1**2)
    phi = system["torsion_restraint"].coordinates(system.positions)
    away = np.abs((phi - np.radians([-120, 0] * 2) + np.pi) % (2 * np.pi) - np.pi) - np.radians([2.5, 0] * 2)
    expected = 500 * np.sum(np.maximum(away, 0) ** 2)
    assert system.energy_terms()["torsion_restraint"] == pytest.approx(expected)
    sim = sponge.Simulation(system, sponge.LangevinMiddle(303.15, 1.0, 0.001), seed=1)
    sim.minimize()
    k = held.params["k"].copy()
    sim.run(20, change={"position_restraint/k": sponge.ramp(k, 0.5 * k)})
    np.testing.assert_allclose(system["position_restraint"].params["k"], 0.5 * k)
    assert np.abs(sim.positions[[0, 5], 2] - system.positions[[0, 5], 2]).max() < 0.05


def test_without_defines_nothing_is_held():
    names = {p.name for p in sponge.load(*FILES, **CHARMM).potentials}
    assert not any("restraint" in name for name in names)
    with pytest.raises(FileFormatError, match="LIP.itp, line 34: must hold numbers, got .*POSRES_FC_LIPID.* defines"):
        sponge.load(*FILES, defines={"POSRES": ""}, **CHARMM)


@pytest.mark.peer
@pytest.mark.skipif(gmx.GMX is None, reason="needs gmx_d")
def test_energies_of_gromacs(tmp_path):
    """By the settings of CHARMM-GUI, but with a reaction field, whose sums need no mesh."""
    folder = shutil.copytree(FOLDER, tmp_path / "gromacs")
    macros = defines(FOLDER / "step6.1_equilibration.mdp")
    options = CHARMM | {"method": "reaction_field", "dielectric": np.inf, "excluded_field": True}
    system = sponge.load(*FILES, defines=macros, **options)
    positions = system.positions.round(9)
    settings = {
        "define": " ".join(f"-D{name}={value}" if value else f"-D{name}" for name, value in macros.items()),
        "coulombtype": "reaction-field", "epsilon-rf": 0, "vdw-modifier": "force-switch", "rvdw-switch": 1.0,
        "rvdw": 1.2, "rcoulomb": 1.2, "rlist": 1.2,
    }  # fmt: skip
    energies, forces = gmx.evaluate(folder, folder / "topol.top", positions, 2.8, settings)
    assert gmx.differences(system, positions, energies, None) == []
    free = np.arange(10)  # those of rigid waters in GROMACS include the constraints
    np.testing.assert_allclose(system.forces()[free], forces[free], rtol=1e-6, atol=1e-4)
