"""Training networks on charges and dipole moments."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import Reports, check

from .charge_network import ChargeNetwork
from .dataset import Batches, Dataset
from .training import RootMeanSquare, Training, held_out, run_training
from .training_range import with_range

__all__ = ["ChargeErrors", "evaluate_charges", "train_charges"]

_SMALLEST = 1e-3  # e, e nm: what errors are measured in, at least


@dataclass(frozen=True)
class ChargeErrors:
    """Errors of a charge network on a data set; nan for what the data set does not know.

    Attributes
    ----------
    charge_rmse, charge_mae : float
        Root mean square and mean absolute error of the charges, e.
    dipole_rmse : float
        Root mean square length of the error of the dipole moments, e nm.
    relative : float
        That over the root mean square length of the dipole moments.
    charges : list of (n,) array
        What the network predicts, e.
    dipoles : (frames, 3) array
        Its dipole moments about the origin of the positions, e nm.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> network = learn.ChargeNetwork.init(core.random.key(0), ["H", "O"], features=8, layers=1)
    >>> positions = [[[0, 0, 0], [0.1 + 0.01 * k, 0, 0]] for k in range(4)]
    >>> data = learn.Dataset([[8, 1]] * 4, positions, charges=[[-0.4, 0.4]] * 4)
    >>> bool(np.isnan(learn.evaluate_charges(network, data).dipole_rmse))
    True
    """

    charge_rmse: float
    charge_mae: float
    dipole_rmse: float
    relative: float
    charges: list[np.ndarray]
    dipoles: np.ndarray

    def __repr__(self):
        return (
            f"<ChargeErrors: charges {self.charge_rmse:.3g} e, dipole moments {self.dipole_rmse:.3g} e nm, "
            f"{100 * self.relative:.2f} % of their rms>"
        )


def train_charges(
    network: ChargeNetwork,
    data: Dataset,
    epochs: int,
    *,
    validation: Dataset | float = 0.1,
    batch: int = 8,
    rate: float | Callable = 2e-3,
    optimizer: Any = None,
    charge_weight: float = 1.0,
    dipole_weight: float = 1.0,
    clip: float = 10.0,
    patience: int | None = None,
    callbacks: Sequence[Any] = (),
    seed: int = 0,
    checkpoint: str | os.PathLike | None = None,
    report: Reports = None,
    progress: bool | None = None,
) -> Training:
    """Train a network on charges, dipole moments, or both.

    The loss is ``charge_weight`` times the mean square error of the charges, in units of their standard deviation
    within elements, plus ``dipole_weight`` times that of the components of dipole moments, in units of their root mean
    square. What the data set does not know does not count.

    Parameters
    ----------
    network : ChargeNetwork
        A fresh one (without reference charges) first gets the mean charge of each element as its reference.
    data : Dataset
        With charges or dipole moments or both.
    epochs, validation, batch, rate, optimizer
        As for `train`.
    charge_weight, dipole_weight : float
    clip, patience, callbacks, seed, checkpoint, report, progress
        As for `train`.

    Returns
    -------
    Training
        With ``charge_rmse`` (e) and ``dipole_rmse`` (e nm, of a component) in its history.

    Raises
    ------
    ValueError
        If options or data make no sense: charges of a frame that do not add up to the network's total, dipole moments
        of a periodic frame, or validation data that lack what the training data have.
    FloatingPointError
        If the loss becomes non-finite.
    CheckpointError
        If the checkpoint belongs to another training.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> r = np.linspace(0.08, 0.2, 16)
    >>> x = np.stack([np.zeros((16, 3)), np.stack([r, 0 * r, 0 * r], 1)], 1)
    >>> q = 0.4 * (1 - r)[:, None] * [[-1.0, 1.0]]
    >>> data = learn.Dataset([["O", "H"]] * 16, x, charges=q)
    >>> net = learn.ChargeNetwork.init(core.random.key(0), ["O", "H"], cutoff=0.3, features=8, layers=1, radial=6)
    >>> found = learn.train_charges(net, data, epochs=20, batch=4)
    >>> loss = found.history["validation/loss"]
    >>> bool(loss[-1] < loss[0])
    True
    """
    where = "train_charges"
    check.kind(network, ChargeNetwork, f"{where}: network")
    data, judge = held_out(where, data, validation, seed, epochs, batch)
    for part in (data, judge):
        _check(where, part, network.total)
    for name in ("charges", "dipoles"):
        if getattr(data, name) is not None and getattr(judge, name) is None:
            raise ValueError(f"{where}: the validation data must have {name}, as the training data have, got none")
    known = [data.charges is not None, data.dipoles is not None]
    wanted = [float(w) if k else 0.0 for w, k in zip((charge_weight, dipole_weight), known, strict=True)]
    if min(charge_weight, dipole_weight) < 0 or not sum(wanted):
        raise ValueError(
            f"{where}: weights must be >= 0, and one positive of what the data know, got {charge_weight} "
            f"of charges and {dipole_weight} of dipole moments"
        )
    if not any(network.network.reference) and network.network.scale == 1.0:
        network = _fitted(network, data)
    batches, judged = (Batches(part, network.network, batch, network.total) for part in (data, judge))
    network = dataclasses.replace(network, network=with_range(network.network, batches))
    scales = _scales(network, data)
    weights = wanted[0] / scales[0] ** 2, wanted[1] / scales[1] ** 2

    def loss(prediction, batch):
        (charge, atoms), (dipole, components) = _squares(prediction, batch)
        return weights[0] * charge / atoms + weights[1] * dipole / components

    errors = {name: RootMeanSquare(_squares, k) for k, name in enumerate(("charge_rmse", "dipole_rmse")) if known[k]}
    settings = {
        "batch": batch,
        "frames": len(data),
        "held-out frames": len(judge),
        "charge_weight": charge_weight,
        "dipole_weight": dipole_weight,
        "clip": clip,
        "total": network.total,
    }
    return run_training(
        where,
        network,
        loss,
        errors,
        batches,
        judged,
        settings,
        epochs=epochs,
        rate=rate,
        optimizer=optimizer,
        clip=clip,
        patience=patience,
        callbacks=callbacks,
        seed=seed,
        checkpoint=checkpoint,
        report=report,
        progress=progress,
    )


def evaluate_charges(network: ChargeNetwork, data: Dataset, batch: int = 16) -> ChargeErrors:
    """Compare a charge network with a data set.

    Parameters
    ----------
    network : ChargeNetwork
    data : Dataset
    batch : int
        Frames computed at once.

    Raises
    ------
    ValueError
        If the data set knows neither charges nor dipole moments, or they do not fit the network.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> network = learn.ChargeNetwork.init(core.random.key(0), ["H", "O"], features=8, layers=1)
    >>> positions = [[[0, 0, 0], [0.1 + 0.01 * k, 0, 0]] for k in range(4)]
    >>> data = learn.Dataset([[8, 1]] * 4, positions, charges=[[-0.4, 0.4]] * 4, dipoles=np.full((4, 3), 0.01))
    >>> errors = learn.evaluate_charges(network, data)
    >>> errors.charge_rmse > 0, errors.dipoles.shape
    (True, (4, 3))
    """
    check.kind(network, ChargeNetwork, "evaluate_charges: network")
    _check("evaluate_charges", data, network.total)
    batches = Batches(data, network.network, batch, network.total)
    predict = core.jit(lambda network, batch: network(batch))
    charges, dipoles = [], []
    for b in batches.source():
        q, d = predict(network, b)
        charges += list(q.reshape(batches.size, -1)[b.frame > 0])
        dipoles.append(d[b.frame > 0])
    by_frame = [q[: len(x)] for q, x in zip(charges, data.positions, strict=True)]
    centers = np.array([x.mean(0) for x in data.positions])
    moments = np.concatenate(dipoles) + network.total * centers
    rmse = mae = dipole = relative = np.nan
    if data.charges is not None:
        error = np.concatenate(by_frame) - np.concatenate(data.charges)
        rmse, mae = float(np.sqrt(np.mean(error**2))), float(np.mean(np.abs(error)))
    if data.dipoles is not None:
        dipole = float(np.sqrt(np.mean(np.sum((moments - data.dipoles) ** 2, axis=1))))
        relative = dipole / max(float(np.sqrt(np.mean(np.sum(data.dipoles**2, axis=1)))), 1e-300)
    return ChargeErrors(rmse, mae, dipole, relative, by_frame, moments)


def _check(where, data, total):
    if data.charges is None and data.dipoles is None:
        raise ValueError(f"{where}: the data set must have charges or dipoles, got neither")
    for k in range(len(data)):
        if data.charges is not None and abs(np.sum(data.charges[k]) - total) > 1e-3:
            raise ValueError(
                f"{where}: frame {k}: charges must add up to the network's total of {total:g} e, got "
                f"{np.sum(data.charges[k]):g} e"
            )
        if data.dipoles is not None and data.boxes[k] is not None:
            raise ValueError(f"{where}: frame {k}: a periodic frame has no dipole moment to learn from")


def _squares(prediction, batch):
    """Sums of squared errors and their numbers, of charges and of components of dipole moments."""
    charges, dipoles = prediction
    e = (charges - batch.charges) * batch.real
    d = (dipoles - batch.dipoles) * batch.frame[:, None]
    return (np.sum(e * e), np.sum(batch.real).astype(np.float64)), (np.sum(d * d), 3 * np.sum(batch.frame))


def _fitted(network, data):
    """The network with mean charges of the elements, and a scale from what they leave."""
    if data.charges is None:
        scale, reference = 0.1, network.network.reference
    else:
        z, q = np.concatenate(data.elements), np.concatenate(data.charges)
        reference = tuple(float(np.mean(q[z == e])) if np.any(z == e) else 0.0 for e in network.network.elements)
        scale = max(_deviation(z, q), _SMALLEST)
    return dataclasses.replace(network, network=dataclasses.replace(network.network, reference=reference, scale=scale))


def _deviation(z, q):
    """Root mean square deviation of charges from the mean of their element."""
    means = {e: np.mean(q[z == e]) for e in np.unique(z)}
    return float(np.sqrt(np.mean((q - np.array([means[e] for e in z])) ** 2)))


def _scales(network, data):
    """Return the scales of charges and of components of dipole moments, in which the loss measures errors."""
    charge = 1.0 if data.charges is None else _deviation(np.concatenate(data.elements), np.concatenate(data.charges))
    dipole = 1.0
    if data.dipoles is not None:
        centers = np.array([x.mean(0) for x in data.positions])
        dipole = float(np.sqrt(np.mean((data.dipoles - network.total * centers) ** 2)))
    return max(charge, _SMALLEST), max(dipole, _SMALLEST)
