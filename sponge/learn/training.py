"""Training networks on energies and forces, which are derivatives themselves."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele import core
from triskele.core import optim
from triskele.core.extend import Reports, check, progress_bar
from triskele.core.train import EarlyStopping, History, Lambda, Model, StateFile, metrics

from .dataset import Batches, Dataset
from .network import Network
from .training_range import with_range

__all__ = ["Errors", "Training", "evaluate", "fitted", "train"]

_LENGTH = 0.03  # nm: a network's output of 1 stands for the work of a typical force over this way


@dataclass(frozen=True)
class Errors:
    """Errors of a network on a data set.

    Attributes
    ----------
    energy_rmse, energy_mae : float
        Root mean square and mean absolute error of the energy per atom, kJ/mol.
    force_rmse, force_mae : float
        Root mean square and mean absolute error of the force components, kJ/mol/nm.
    relative : float
        Root mean square error of the forces over their root mean square.
    energies : (frames,) array
        What the network predicts, kJ/mol.
    forces : list of (n, 3) array

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> network = learn.PaiNN.init(core.random.key(0), ["H", "O"], cutoff=0.4, features=8, layers=1)
    >>> positions = [[[0, 0, 0], [0.1 + 0.01 * k, 0, 0]] for k in range(4)]
    >>> data = learn.Dataset([[8, 1]] * 4, positions, np.arange(4.0), np.ones((4, 2, 3)))
    >>> errors = learn.evaluate(network, data)
    >>> len(errors.energies)
    4
    """

    energy_rmse: float
    energy_mae: float
    force_rmse: float
    force_mae: float
    relative: float
    energies: np.ndarray
    forces: list[np.ndarray]

    def __repr__(self):
        return (
            f"<Errors: energy {self.energy_rmse:.3g} kJ/mol per atom, forces {self.force_rmse:.3g} kJ/mol/nm, "
            f"{100 * self.relative:.2f} % of their rms>"
        )


@dataclass(frozen=True)
class Training:
    """Result of `train`.

    Attributes
    ----------
    network : Network
        Network with the weights of the epoch that was best on the validation set.
    best : int
        That epoch, counted from 1.
    history : core.train.History
        Of each epoch ``loss``, ``energy_rmse`` (kJ/mol per atom) and ``force_rmse`` (kJ/mol/nm), the same of the
        validation set as ``validation/loss`` and so on, and the learning rate at its end, ``rate``.
    last : Network
        Network with the weights of the last epoch.
    stopped : str or None
        Why the training ended early: a reporter's reason, or no progress for `patience` epochs.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> network = learn.PaiNN.init(core.random.key(0), ["H", "O"], cutoff=0.4, features=8, layers=1)
    >>> positions = [[[0, 0, 0], [0.1 + 0.01 * k, 0, 0]] for k in range(4)]
    >>> data = learn.Dataset([[8, 1]] * 4, positions, np.arange(4.0), np.ones((4, 2, 3)))
    >>> found = learn.train(network, data, epochs=2, batch=2)
    >>> len(found.history["validation/loss"])
    2
    """

    network: Network
    best: int
    history: History
    last: Network
    stopped: str | None = None


def fitted(network: Network, data: Dataset) -> Network:
    """The network with reference energies by least squares, and a scale from the size of the forces.

    Parameters
    ----------
    network : Network
    data : Dataset

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> network = learn.PaiNN.init(core.random.key(0), ["H", "O"], cutoff=0.4, features=8, layers=1)
    >>> positions = [[[0, 0, 0], [0.1 + 0.01 * k, 0, 0]] for k in range(4)]
    >>> data = learn.Dataset([[8, 1]] * 4, positions, np.arange(4.0), np.ones((4, 2, 3)))
    >>> learn.fitted(network, data).elements
    (1, 8)
    """
    found = data.reference_energies()
    reference = tuple(found.get(z, 0.0) for z in network.elements)
    return dataclasses.replace(network, reference=reference, scale=max(data.force_rms * _LENGTH, 1e-6))  # type: ignore[type-var]


def train(
    network: Network,
    data: Dataset,
    epochs: int,
    *,
    validation: Dataset | float = 0.1,
    batch: int = 8,
    rate: float | Callable = 2e-3,
    optimizer: Any = None,
    energy_weight: float = 0.1,
    force_weight: float = 1.0,
    clip: float = 10.0,
    patience: int | None = None,
    callbacks: Sequence[Any] = (),
    seed: int = 0,
    checkpoint: str | os.PathLike | None = None,
    report: Reports = None,
    progress: bool | None = None,
) -> Training:
    """Train a network on energies and forces.

    The loss is ``energy_weight`` times the mean square error of the energy per atom, in units of the standard deviation
    of the data after `fitted`, plus ``force_weight`` times that of the forces, in units of their root mean square.

    Parameters
    ----------
    network : Network
        A fresh one (without reference energies) is `fitted` to the data first; any other continues from its weights.
    data : Dataset
    epochs : int
        Times to go through all frames.
    validation : Dataset or float
        Frames to judge by, or the fraction of `data` to set apart for it.
    batch : int
        Frames in a step.
    rate : float or schedule
        Learning rate: a number falls to a hundredth along half a cosine, after a short warm-up; or a schedule of
        `core.optim`.
    optimizer : optional
        Another one of `core.optim`. Defaults to Adam at `rate`.
    energy_weight, force_weight : float
    clip : float
        Largest norm of the gradient.
    patience : int, optional
        Epochs without progress on the validation set after which to stop.
    callbacks : sequence of core.train.Callback
        More callbacks of the training loop.
    seed : int
        Seed of the order of frames and of the validation set.
    checkpoint : path-like, optional
        Written after every epoch, and when Ctrl-C or SIGTERM ends the training. If the file exists, training resumes
        from it, bit for bit.
    report : function or list of functions, optional
        Called after every epoch with a dictionary of the numbers of `Training.history`; see `core.report`. A reporter
        that raises StopIteration ends the training; `Training.stopped` keeps its reason.
    progress : bool, optional
        Show a progress bar. By default only on terminals and in notebooks.

    Returns
    -------
    Training

    Raises
    ------
    ValueError
        If options or data make no sense.
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
    >>> f = -5e4 * (r - 0.12)[:, None, None] * np.array([[-1.0, 0, 0], [1, 0, 0]])
    >>> data = learn.Dataset([["O", "O"]] * 16, x, 2.5e4 * (r - 0.12) ** 2, f)
    >>> net = learn.PaiNN.init(core.random.key(0), ["O"], cutoff=0.3, features=8, layers=1, radial=6)
    >>> found = learn.train(net, data, epochs=20, batch=4)
    >>> loss = found.history["validation/loss"]
    >>> bool(loss[-1] < loss[0])
    True
    """
    if energy_weight < 0 or force_weight < 0 or energy_weight + force_weight == 0:
        raise ValueError(f"train: weights must be >= 0 and not both 0, got {energy_weight} and {force_weight}")
    data, validation = held_out("train", data, validation, seed, epochs, batch)
    for part in (data, validation):
        part.need("train", "energies", "forces")
    if not any(network.reference) and network.scale == 1.0:
        network = fitted(network, data)
    batches, judged = Batches(data, network, batch), Batches(validation, network, batch)
    network = with_range(network, batches)
    scales = _scales(network, data)
    weights = energy_weight / scales[0], force_weight / scales[1]

    def loss(prediction, batch):
        (energy, frames), (force, components) = _squares(prediction, batch)
        return weights[0] * energy / frames + weights[1] * force / components

    settings = {
        "batch": batch,
        "frames": len(data),
        "held-out frames": len(validation),
        "energy_weight": energy_weight,
        "force_weight": force_weight,
        "clip": clip,
        "sum of energies": float(np.sum(data.energies)),
    }
    errors = {"energy_rmse": RootMeanSquare(_squares, 0), "force_rmse": RootMeanSquare(_squares, 1)}
    return run_training(
        "train",
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


def held_out(
    where: str, data: Dataset, validation: Dataset | float, seed: int, epochs: int, batch: int
) -> tuple[Dataset, Dataset]:
    """Data to train on, and to judge by."""
    for name, value in (("epochs", epochs), ("batch", batch)):
        check.integer(value, f"{where}: {name}", 1)
    if isinstance(validation, Dataset):
        return data, validation
    if not 0 < validation < 1:
        raise ValueError(f"{where}: validation must be a Dataset or a fraction between 0 and 1, got {validation}")
    held = max(1, round(validation * len(data)))
    data, judge = data.split(len(data) - held, held, seed=seed)
    return data, judge


def run_training(
    where: str,
    network: Any,
    loss: Callable,
    errors: dict[str, metrics.Metric],
    batches: Batches,
    judged: Batches,
    settings: dict[str, Any],
    *,
    epochs: int,
    rate: Any,
    optimizer: Any,
    clip: float,
    patience: int | None,
    callbacks: Sequence[Any],
    seed: int,
    checkpoint: Any,
    report: Reports,
    progress: bool | None,
) -> Training:
    """The training loop of all networks; `settings` are those that a checkpoint must agree with."""
    check.integer(1 if patience is None else patience, f"{where}: patience", 1)
    check.positive(clip, f"{where}: clip")
    if optimizer is None:
        steps = epochs * len(batches)
        schedule = (
            rate
            if callable(rate)
            else optim.warmup(min(100, steps // 10), optim.cosine_decay(rate, steps, 0.01 * rate))
        )
        optimizer = optim.Adam(schedule)

    def epoch_end(run):
        if not np.isfinite(run.record["loss"]):
            raise FloatingPointError(
                f"{where}: the loss must stay finite, got {run.record['loss']} in epoch "
                f"{run.epoch} (a lower rate, or broken data; core.train.StopOnNaN finds the "
                "operation)"
            )
        rate = optimizer.learning_rate
        run.record["rate"] = float(rate(run.step) if callable(rate) else rate) * run.rate_scale

    model = Model(network, loss, optimizer, clip=clip, metrics=errors)
    last: list[Any] = []
    best = EarlyStopping("validation/loss", patience=(patience or epochs) - 1)
    parts = [Lambda(epoch_end=epoch_end, run_end=lambda run: last.append(run.net)), best]
    if checkpoint is not None:
        parts.append(StateFile(checkpoint, settings))
    history = model.fit(
        batches.source(seed).map(_pair),
        epochs,
        validation=list(judged.source().map(_pair)),
        callbacks=[*callbacks, *parts],
        seed=seed,
        report=report,
        progress=progress,
    )
    return Training(model.net, best.best_epoch or 0, history, last[0], history.stopped)


def evaluate(network: Network, data: Dataset, batch: int = 16, *, progress: bool | None = None) -> Errors:
    """Compare a network with a data set.

    Parameters
    ----------
    network : Network
    data : Dataset
    batch : int
        Frames computed at once.
    progress : bool, optional
        Show a progress bar. By default only on terminals and in notebooks.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> network = learn.PaiNN.init(core.random.key(0), ["H", "O"], cutoff=0.4, features=8, layers=1)
    >>> positions = [[[0, 0, 0], [0.1 + 0.01 * k, 0, 0]] for k in range(4)]
    >>> data = learn.Dataset([[8, 1]] * 4, positions, np.arange(4.0), np.ones((4, 2, 3)))
    >>> learn.evaluate(network, data).forces[0].shape
    (2, 3)
    """
    data.need("evaluate", "energies", "forces")
    batches = Batches(data, network, batch)
    predict = core.jit(lambda network, batch: network(batch))
    energies, forces = [], []
    with progress_bar("evaluate", "batch", len(batches), show=progress) as bar:
        for b in batches.source():
            e, f = predict(network, b)
            energies.append(e[b.frame > 0])
            forces.append(f.reshape(batches.size, -1, 3)[b.frame > 0])
            bar.update()
    found = np.concatenate(energies)
    by_frame = [f[: len(x)].astype(np.float64) for f, x in zip(np.concatenate(forces), data.positions, strict=True)]
    e = (found - data.energies) / np.array([len(x) for x in data.positions])
    f = np.concatenate([(a - b).ravel() for a, b in zip(by_frame, data.forces, strict=True)])
    rmse = float(np.sqrt(np.mean(f**2)))
    return Errors(
        float(np.sqrt(np.mean(e**2))),
        float(np.mean(np.abs(e))),
        rmse,
        float(np.mean(np.abs(f))),
        rmse / max(data.force_rms, 1e-300),
        found,
        by_frame,
    )


@core.jit
def _pair(batch):
    """A batch as arguments of the network, and as target."""
    return (batch,), batch


def _squares(prediction, batch):
    """Sums of squared errors and their numbers, of energies per atom and of force components."""
    energies, forces = prediction
    atoms = np.sum(np.reshape(batch.real, (len(batch.frame), -1)), axis=1)
    e = (energies - batch.energies) / np.maximum(atoms, 1.0) * batch.frame
    f = (forces - batch.forces) * batch.real[:, None]
    return (np.sum(e * e), np.sum(batch.frame)), (np.sum(f * f), 3 * np.sum(batch.real))


@dataclass(frozen=True)
class RootMeanSquare(metrics.Metric):
    """Root of one of the mean squares that `squares` gives as sums and numbers."""

    squares: Callable
    part: int
    greater_is_better = False

    def init(self):
        return np.float64(0), np.float64(0)

    def update(self, state, predictions, targets, _weights=None):
        total, count = self.squares(predictions, targets)[self.part]
        return state[0] + total, state[1] + count

    def result(self, state):
        return float(np.sqrt(state[0] / state[1]))


def _scales(network, data):
    """Squares of what errors are measured in: of energies per atom, of forces."""
    reference = dict(zip(network.elements, network.reference, strict=True))
    rest = [
        (e - sum(reference[int(z)] for z in numbers)) / len(numbers)
        for e, numbers in zip(data.energies, data.elements, strict=True)
    ]
    return max(float(np.mean(np.square(rest))), 1e-6), max(data.force_rms**2, 1e-6)
