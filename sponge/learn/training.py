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
from triskele.core.extend import Reports, Work, check, dataframe, html_table, plots, progress_bar

from ..errors import CheckpointError
from .dataset import Batches, Dataset
from .network import Network

__all__ = ["Errors", "History", "Training", "evaluate", "fitted", "train"]

_LABELS = {"loss": "loss", "validation": "loss of the validation set", "energy_rmse": "energy error [kJ/mol per atom]",
           "force_rmse": "force error [kJ/mol/nm]", "rate": "learning rate"}
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
        return (f"<Errors: energy {self.energy_rmse:.3g} kJ/mol per atom, forces {self.force_rmse:.3g} kJ/mol/nm, "
                f"{100 * self.relative:.2f} % of their rms>")


@dataclass
class History:
    """History of a training, one entry per epoch.

    Attributes
    ----------
    loss : list of float
        Mean over the epoch's batches.
    validation : list of float
        The same of the validation set, after the epoch.
    energy_rmse, force_rmse : list of float
        On the validation set, kJ/mol per atom and kJ/mol/nm.
    rate : list of float
        Learning rate at the end of the epoch.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> network = learn.PaiNN.init(core.random.key(0), ["H", "O"], cutoff=0.4, features=8, layers=1)
    >>> positions = [[[0, 0, 0], [0.1 + 0.01 * k, 0, 0]] for k in range(4)]
    >>> data = learn.Dataset([[8, 1]] * 4, positions, np.arange(4.0), np.ones((4, 2, 3)))
    >>> history = learn.train(network, data, epochs=2, batch=2).history
    >>> len(history.loss)
    2
    """

    loss: list[float] = dataclasses.field(default_factory=list)
    validation: list[float] = dataclasses.field(default_factory=list)
    energy_rmse: list[float] = dataclasses.field(default_factory=list)
    force_rmse: list[float] = dataclasses.field(default_factory=list)
    rate: list[float] = dataclasses.field(default_factory=list)

    def to_dataframe(self) -> Any:
        """Return the history as a pandas DataFrame with a row for each epoch, counted from 1."""
        return dataframe(dataclasses.asdict(self), "epoch", range(1, len(self.loss) + 1))

    def _repr_html_(self) -> str:
        return html_table("History", {"epoch": range(1, len(self.loss) + 1), **vars(self)}, most=10)

    def __repr__(self) -> str:
        last = f", loss {self.loss[-1]:.4g}, validation {self.validation[-1]:.4g}" if self.loss else ""
        return f"<History: {len(self.loss)} epoch{'s' * (len(self.loss) != 1)}{last}>"

    def plot(self, ax: Any = None, *, names: Sequence[str] = ("loss", "validation"), **line: Any) -> Any:
        """Draw some of the curves over the epochs.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Defaults to new axes.
        names : sequence of str
            Attributes to draw, such as ``["force_rmse"]``.
        **line
            Options of the lines.

        Returns
        -------
        matplotlib Axes
        """
        label = _LABELS[names[0]] if len(names) == 1 else "loss" if set(names) <= {"loss", "validation"} else "value"
        with plots.axes(ax, xlabel="epoch", ylabel=label) as ax:
            plots.curves(ax, np.arange(1, len(self.loss) + 1), {name: getattr(self, name) for name in names}, **line)
        return ax


@dataclass(frozen=True)
class Training:
    """Result of `train`.

    Attributes
    ----------
    network : Network
        Network with the weights of the epoch that was best on the validation set.
    best : int
        That epoch, counted from 1.
    history : History
    last : Network
        Network with the weights of the last epoch.
    stopped : str or None
        Why a reporter ended the training early.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> network = learn.PaiNN.init(core.random.key(0), ["H", "O"], cutoff=0.4, features=8, layers=1)
    >>> positions = [[[0, 0, 0], [0.1 + 0.01 * k, 0, 0]] for k in range(4)]
    >>> data = learn.Dataset([[8, 1]] * 4, positions, np.arange(4.0), np.ones((4, 2, 3)))
    >>> found = learn.train(network, data, epochs=2, batch=2)
    >>> len(found.history.loss)
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
    return dataclasses.replace(network, reference=reference,
                               scale=max(data.force_rms * _LENGTH, 1e-6))  # type: ignore[type-var]


def train(network: Network, data: Dataset, epochs: int, *, validation: Dataset | float = 0.1, batch: int = 8,
          rate: float | Callable = 2e-3, optimizer: Any = None, energy_weight: float = 0.1, force_weight: float = 1.0,
          clip: float = 10.0, patience: int | None = None, seed: int = 0, checkpoint: str | os.PathLike | None = None,
          report: Reports = None, progress: bool | None = None) -> Training:
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
    seed : int
        Seed of the order of frames and of the validation set.
    checkpoint : path-like, optional
        Written after every epoch. If the file exists, training resumes from it, bit for bit.
    report : function or list of functions, optional
        Called after every epoch with a dictionary of ``step`` (the epoch) and the numbers of `History`; see
        `core.report`. A reporter that raises StopIteration ends the training; `Training.stopped` keeps its reason.
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
    >>> found.history.validation[-1] < found.history.validation[0]
    True
    """
    for name, value in (("epochs", epochs), ("batch", batch), ("patience", 1 if patience is None else patience)):
        check.integer(value, f"train: {name}", 1)
    check.positive(clip, "train: clip")
    if energy_weight < 0 or force_weight < 0 or energy_weight + force_weight == 0:
        raise ValueError(f"train: weights must be >= 0 and not both 0, got {energy_weight} and {force_weight}")
    if not isinstance(validation, Dataset):
        if not 0 < validation < 1:
            raise ValueError(f"train: validation must be a Dataset or a fraction between 0 and 1, got {validation}")
        held = max(1, round(validation * len(data)))
        data, validation = data.split(len(data) - held, held, seed=seed)
    if not any(network.reference) and network.scale == 1.0:
        network = fitted(network, data)
    batches, held_out = Batches(data, network, batch), Batches(validation, network, batch)
    if optimizer is None:
        steps = epochs * len(batches)
        schedule = rate if callable(rate) else optim.warmup(
            min(100, steps // 10), optim.cosine_decay(rate, steps, 0.01 * rate)
        )
        optimizer = optim.Adam(schedule)
    scales = _scales(network, data)
    weights = energy_weight / scales[0], force_weight / scales[1]

    def step(network, state, data):
        (loss, _), grads = core.value_and_grad(_loss, has_aux=True)(network, data, weights)
        network, state = optimizer.step(network, optim.clip_by_global_norm(grads, clip), state)
        return network, state, loss

    step, judge = core.jit(step), core.jit(lambda network, data: _loss(network, data, weights))
    now = _State(network, optimizer.init(network), network, History())
    tag = {"seed": seed, "batch": batch, "frames": len(data), "held-out frames": len(validation),
           "energy_weight": energy_weight, "force_weight": force_weight, "clip": clip,
           "sum of energies": float(np.sum(data.energies))}
    if checkpoint is not None and os.path.exists(checkpoint):
        now = _State.load(checkpoint, now, tag)
    history = now.history
    with Work("train", report, progress, unit="epoch", total=epochs, done=len(history.loss)) as work:
        for epoch in range(len(history.loss), epochs):
            if work.stopped or patience is not None and epoch - now.best >= patience:
                break
            total = 0.0
            for data_ in batches(np.random.default_rng([seed, epoch]).permutation(len(batches.energies))):
                now.network, now.state, loss = step(now.network, now.state, data_)
                total += float(loss)
                if not np.isfinite(total):
                    raise FloatingPointError(f"train: the loss must stay finite, got {float(loss)} in epoch "
                                             f"{epoch + 1} (a lower rate, or broken data)")
            sums = np.sum([np.array(judge(now.network, d)[1]) for d in held_out()], axis=0)
            energy, force = np.sqrt(sums[0] / sums[1]), np.sqrt(sums[2] / sums[3])
            history.loss.append(total / len(batches))
            history.validation.append(float(weights[0] * energy**2 + weights[1] * force**2))
            history.energy_rmse.append(float(energy))
            history.force_rmse.append(float(force))
            chosen = optimizer.learning_rate
            history.rate.append(float(chosen(now.state.count) if callable(chosen) else chosen))
            if history.validation[-1] <= min(history.validation):
                now.best_network, now.best = now.network, epoch + 1
            work({"step": epoch + 1, **{name: values[-1] for name, values in vars(history).items()}},
                 f"energy {energy:.3g} kJ/mol/atom, forces {100 * force / data.force_rms:.2f} %")
            if checkpoint is not None:
                work.sync()
                now.save(checkpoint, tag)
    return Training(now.best_network, now.best, history, now.network, work.stopped)


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
    batches = Batches(data, network, batch)
    predict = core.jit(_predict)
    energies, forces = [], []
    with progress_bar("evaluate", "batch", len(batches), show=progress) as bar:
        for b in batches():
            e, f = predict(network, b)
            energies.append(e[b.frame > 0])
            forces.append(f.reshape(batches.size, -1, 3)[b.frame > 0])
            bar.update()
    found = np.concatenate(energies)
    by_frame = [f[: len(x)].astype(np.float64) for f, x in zip(np.concatenate(forces), data.positions, strict=True)]
    e = (found - data.energies) / np.array([len(x) for x in data.positions])
    f = np.concatenate([(a - b).ravel() for a, b in zip(by_frame, data.forces, strict=True)])
    rmse = float(np.sqrt(np.mean(f**2)))
    return Errors(float(np.sqrt(np.mean(e**2))), float(np.mean(np.abs(e))), rmse, float(np.mean(np.abs(f))),
                  rmse / max(data.force_rms, 1e-300), found, by_frame)


def _predict(network, data):
    """Energies of frames and forces of atoms."""
    frames = len(data.frame)

    def energy(x):
        vectors = x[data.neighbors] - x[:, None] + data.offsets
        atoms = network.energies(data.species, data.neighbors, vectors) * data.real
        each = np.sum(np.reshape(atoms, (frames, -1)), axis=1)
        return np.sum(each), each

    (_, each), gradient = core.value_and_grad(energy, has_aux=True)(data.positions)
    return each, -gradient


def _loss(network, data, weights):
    """The loss; and sums of squares and their numbers, of energies per atom and of forces."""
    energies, forces = _predict(network, data)
    atoms = np.sum(np.reshape(data.real, (len(data.frame), -1)), axis=1)
    e = (energies - data.energies) / np.maximum(atoms, 1.0) * data.frame
    f = (forces - data.forces) * data.real[:, None]
    sums = np.sum(e * e), np.sum(data.frame), np.sum(f * f), 3 * np.sum(data.real)
    return weights[0] * sums[0] / sums[1] + weights[1] * sums[2] / sums[3], sums


def _scales(network, data):
    """Squares of what errors are measured in: of energies per atom, of forces."""
    reference = dict(zip(network.elements, network.reference, strict=True))
    rest = [(e - sum(reference[int(z)] for z in numbers)) / len(numbers)
            for e, numbers in zip(data.energies, data.elements, strict=True)]
    return max(float(np.mean(np.square(rest))), 1e-6), max(data.force_rms**2, 1e-6)


@dataclass
class _State:
    """State of a training."""

    network: Any
    state: Any
    best_network: Any
    history: History
    best: int = 0

    def save(self, path, tag):
        history = {name: np.array(values) for name, values in vars(self.history).items()}
        core.save(path, {"tag": {name: float(x) for name, x in tag.items()}, "best": self.best, "history": history,
                         "trees": self._leaves()})

    def _leaves(self):
        return {name: {str(k): np.asarray(x) for k, x in enumerate(core.tree.leaves(getattr(self, name)))}
                for name in ("network", "state", "best_network")}

    @classmethod
    def load(cls, path, fresh, tag):
        where = f"train: checkpoint {os.fspath(path)!r}"
        try:
            found = core.load(path)
            differ = [f"{name} ({found['tag'][name]:g} in the file, {x:g} here)" for name, x in tag.items()
                      if found["tag"][name] != float(x)]
            if _kinds(fresh._leaves()) != _kinds(found["trees"]):
                differ.append("the network or the optimizer")
            best, history = int(found["best"]), History(
                **{name: values.tolist() for name, values in found["history"].items()}
            )
            if len({len(values) for values in vars(history).values()}) != 1 or not 0 <= best <= len(history.loss):
                raise ValueError("the parts of its history do not fit each other")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise CheckpointError(f"{where} cannot be read: {error}") from error
        if differ:
            raise CheckpointError(f"{where} must belong to this training, but these differ: {', '.join(differ)} "
                                  f"(choose another path, or delete the file)")
        trees = {}
        for name, leaves in found["trees"].items():
            old, structure = core.tree.flatten(getattr(fresh, name))
            values = [leaves[str(k)] if isinstance(x, np.ndarray) else type(x)(leaves[str(k)][()]) for k,
                      x in enumerate(old)]
            trees[name] = core.tree.unflatten(structure, values)
        return cls(**trees, history=history, best=best)


def _kinds(trees):
    """Shapes and types of the arrays that `_State._leaves` gives."""
    return {name: {k: (v.shape, v.dtype) for k, v in leaves.items()} for name, leaves in trees.items()}




