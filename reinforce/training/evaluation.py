"""Evaluation of policies over complete episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import Work, dataframe, html_facts, plots

__all__ = ["Evaluation", "evaluate", "evaluation_seed"]

_EVALUATION = 0x6576616C  # a word that no training mixes into its seed


@dataclass(frozen=True)
class Evaluation:
    """Returns of episodes.

    Attributes
    ----------
    returns : (episodes,) array
    lengths : (episodes,) int

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce import Evaluation
    >>> Evaluation(np.array([1.0, 3.0]), np.array([10, 20]))
    <Evaluation: return 2 ± 1 over 2 episodes of 10 to 20 steps>
    """

    returns: np.ndarray
    lengths: np.ndarray

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        """Standard deviation of the returns."""
        return float(self.returns.std())

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame with return and length of each episode."""
        return dataframe({"return": self.returns, "length": self.lengths}, "episode")

    def plot(self, ax: Any = None, **bars: Any) -> Any:
        """Draw a histogram of the returns, with their mean and its standard error in the legend.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Defaults to new axes.
        **bars
            Options of Matplotlib's ``hist``, such as ``bins``.

        Returns
        -------
        matplotlib Axes
        """
        several = len(self.returns) > 1
        error = self.returns.std(ddof=1) / np.sqrt(len(self.returns)) if several else 0.0
        label = f"mean {self.mean:.4g}" + f" ± {error:.2g}" * several
        with plots.axes(ax, xlabel="return", ylabel="episodes") as ax:
            ax.hist(self.returns, **{"bins": "auto", "color": plots.COLORS[0], "alpha": 0.6, **bars})
            ax.axvline(self.mean, color="black", linestyle="--", label=label)
            ax.axvspan(self.mean - error, self.mean + error, color="black", alpha=0.15, linewidth=0)
            plots.whole_ticks(ax.yaxis)
            ax.legend()
        return ax

    def _repr_html_(self) -> str:
        return html_facts(
            "Evaluation",
            {
                "episodes": len(self.returns),
                "return": f"{self.mean:.4g} ± {self.std:.3g} (standard deviation)",
                "lowest and highest": f"{self.returns.min():.4g}, {self.returns.max():.4g}",
                "length": f"{self.lengths.mean():.4g} steps ({self.lengths.min()} to {self.lengths.max()})",
            },
        )

    def __repr__(self) -> str:
        return (
            f"<Evaluation: return {self.mean:.4g} ± {self.std:.3g} over {len(self.returns)} episodes of "
            f"{self.lengths.min()} to "
            f"{self.lengths.max()} steps>"
        )


def evaluation_seed(seed: int) -> int:
    """Return the seed of environments for an evaluation, 31 bits drawn from `seed`: copies of Gymnasium's environments
    have seeds in a row, and those of a training stand at its seed.
    """
    return int(np.random.SeedSequence((seed, _EVALUATION)).generate_state(1)[0] >> 1)


def evaluate(
    policy: Callable[..., Any], env: Any, episodes: int, rng: np.random.Generator | None, work: Work
) -> Evaluation:
    """Play `episodes` episodes, a number fixed beforehand in each environment: short ones are not preferred.

    `policy(observations, *, rng, mask)` returns actions: those drawn with `rng`, or the most probable ones for None.
    `env` is reset first; `work` gets a record of each episode, and may end the evaluation.
    """
    n = env.num_envs
    share = np.full(n, episodes // n) + (np.arange(n) < episodes % n)
    totals, lengths, over = np.zeros(n), np.zeros(n, np.int64), np.zeros(n, bool)
    returns: list[list[float]] = [[] for _ in range(n)]
    steps: list[list[int]] = [[] for _ in range(n)]
    observation, info = env.reset()
    finished = 0
    while share.any() and not work.stopped:
        action = policy(observation, rng=rng, mask=info.get("action_mask"))
        observation, reward, terminated, truncated, info = env.step(action)
        totals[over], lengths[over] = 0.0, 0
        totals += np.where(over, 0.0, reward)
        lengths += ~over
        over = ~over & (terminated | truncated)
        for k in np.flatnonzero(over & (share > 0)):
            returns[k].append(float(totals[k]))
            steps[k].append(int(lengths[k]))
            share[k] -= 1
            finished += 1
            work({"step": finished, "return": returns[k][-1], "length": steps[k][-1]})
            if work.stopped:
                break
    return Evaluation(np.array([r for rs in returns for r in rs]), np.array([s for ss in steps for s in ss]))
