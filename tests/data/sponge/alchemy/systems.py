"""The systems of `reference.json`: small molecules of FreeSolv, in vacuum and in a box of TIP3P water."""

from pathlib import Path

import numpy as np

from triskele import sponge

HERE = Path(__file__).parent
_WATER = np.array([[0, 0, 0], [0.09572, 0, 0], [-0.023999, 0.092663, 0]])  # nm, O H H
_EDGE, _SIDE = 1.55, 5  # nm; waters along an edge


def names():
    """Names of the molecules."""
    with np.load(HERE / "molecules.npz") as data:
        return sorted({key.partition("/")[0] for key in data.files})


def molecule(name):
    """Parameters of a molecule by their names."""
    with np.load(HERE / "molecules.npz") as data:
        return {key.partition("/")[2]: data[key] for key in data.files if key.startswith(f"{name}/")}


def system(name, water=True, **options):
    """The molecule alone, or in water that stands on a lattice with random orientations."""
    m = molecule(name)
    solute = m["positions"] - m["positions"].mean(axis=0) + 0.5 * _EDGE
    positions, waters = [solute], 0
    if water:
        rng = np.random.default_rng(7)
        for corner in (np.stack(np.meshgrid(*[np.arange(_SIDE)] * 3), -1).reshape(-1, 3) + 0.5) * (_EDGE / _SIDE):
            turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
            if np.linalg.norm(corner - solute, axis=1).min() > 0.26:
                positions.append(corner + _WATER @ turn)
                waters += 1
    n, own = 3 * waters, len(solute)
    first = own + 3 * np.arange(waters)
    of_water = np.concatenate([np.stack([first + a, first + b], 1) for a, b in ((0, 1), (0, 2), (1, 2))])
    bonds = np.concatenate([m["bonds"], of_water[: 2 * waters]])
    result = sponge.System(
        sponge.Topology.of_particles(own + n, bonds=bonds),
        np.full(own + n, 12.0),
        box=_EDGE if water else None,
        positions=np.concatenate(positions),
        exclusions=np.concatenate([m["exclusions"], of_water]),
    )
    charges = np.concatenate([m["charges"], np.tile([-0.834, 0.417, 0.417], waters)])
    sigmas = np.concatenate([m["sigmas"], np.tile([0.315075, 0.1, 0.1], waters)])
    epsilons = np.concatenate([m["epsilons"], np.tile([0.635968, 0.0, 0.0], waters)])
    box = {
        "method": "pme",
        "cutoff": 0.75,
        "switch": 0.65,
        "alpha": 4.0,
        "grid": (24, 24, 24),
        "dispersion_correction": False,
    }
    result.add(sponge.Nonbonded(charges, sigmas, epsilons, **((box if water else {"method": "none"}) | options)))
    result.add(
        sponge.pair14(m["pairs14"], charge_product=m["products14"], sigma=m["sigmas14"], epsilon=m["epsilons14"])
    )
    return result
