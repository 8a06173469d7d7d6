"""Metrics of text: perplexity and BLEU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import check
from .inputs import probabilities, ratio, refuse_outside, spread
from .metric import Metric

__all__ = ["BLEU", "Perplexity"]

_SMOOTHING = ("none", "floor", "add-k", "exp")


@dataclass(frozen=True)
class Perplexity(Metric):
    """exp of the mean negative log probability of the target tokens.

    Predictions are (..., n_tokens), targets integer tokens (...). Weights leave out padding, whose targets may then be
    any integer.

    Parameters
    ----------
    logits : bool, default True
        True if predictions are scores before the softmax; False for probabilities.

    Raises
    ------
    ValueError
        For shapes that do not fit, tokens out of range, NaN, and (for ``logits=False``) predictions that are not
        probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.Perplexity()
    >>> state = metric.update(metric.init(), np.zeros((2, 3, 50)), np.array([[1, 2, 3], [4, -1, -1]]),
    ...                       np.array([[True, True, True], [True, False, False]]))
    >>> round(metric.result(state), 6)
    50.0
    """

    logits: bool = True

    name = "perplexity"
    greater_is_better = False

    def init(self) -> Any:
        """The weighted sum of negative log probabilities, the sum of weights, and the number of values out of range."""
        return {"loss": np.float64(0), "weight": np.float64(0), "outside": np.float64(0)}

    def update(self, state: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Add a batch."""
        p, targets, weights, bad = probabilities("Perplexity", predictions, targets, weights, self.logits)
        own = np.take_along_axis(p, targets[:, None], axis=-1)[:, 0]
        if not self.logits:
            own = np.where(own == 0, -np.inf, np.log(np.where(own == 0, 1.0, own)))
        loss = np.where(weights == 0, 0.0, -own * weights)
        return {
            "loss": state["loss"] + np.sum(loss),
            "weight": state["weight"] + np.sum(weights),
            "outside": state["outside"] + bad,
        }

    def result(self, state: Any) -> float:
        """Return the perplexity; NaN without tokens, and infinite where a target had the probability 0."""
        refuse_outside("Perplexity", state)
        with np.errstate(over="ignore"):
            return float(np.exp(ratio(state["loss"], state["weight"])))


@dataclass(frozen=True)
class BLEU(Metric):
    """BLEU of a corpus, from 0 to 1 (Papineni et al. 2002, sections 2.1 to 2.3).

    Counts of n-grams, clipped by the references, are summed over all sentences before they are divided; so the result
    is not the mean of the BLEU of sentences. The brevity penalty uses the reference whose length is nearest, the
    shorter one of two.

    Predictions are a list of sentences. A sentence is a string, which is split at white space, or a sequence of tokens
    (strings or integers). `targets` holds for each sentence its reference, or a list of several references.

    Parameters
    ----------
    order : int, default 4
        Longest n-grams.
    smoothing : {"none", "floor", "add-k", "exp"}, default "none"
        Smoothing of precisions of 0 (Chen & Cherry 2014): "floor" replaces their counts by 0.1 (method 1), "add-k" adds
        1 to counts and totals of n > 1 (method 2), and "exp" uses 1/2, 1/4, ... (method 3, sacrebleu's default).

    Examples
    --------
    >>> from triskele.core.train import metrics
    >>> metric = metrics.BLEU()
    >>> state = metric.update(metric.init(), ["the cat is on the mat"], [["the cat is on a mat", "there is a cat"]])
    >>> round(metric.result(state), 4)
    0.5373
    """

    order: int = 4
    smoothing: str = "none"

    name = "bleu"
    compiled = False

    def __post_init__(self) -> None:
        check.integer(self.order, "BLEU: order", 1)
        check.choice(self.smoothing, _SMOOTHING, "BLEU: smoothing")

    def init(self) -> Any:
        """Matches and numbers of n-grams for each n, and the lengths of predictions and references."""
        return {"matches": np.zeros(self.order), "ngrams": np.zeros(self.order), "lengths": np.zeros(2)}

    def update(self, state: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Add a batch of sentences with their references. Weights are (sentences,)."""
        if isinstance(predictions, str) or isinstance(targets, str):
            raise TypeError("BLEU: predictions and targets must be lists of sentences, got one string")
        if len(predictions) != len(targets):
            raise ValueError(
                f"BLEU: predictions and targets must have one length, got {len(predictions)} and {len(targets)}"
            )
        weights = spread("BLEU", weights, (len(predictions),))
        found = {k: np.array(v) for k, v in state.items()}
        for prediction, target, weight in zip(predictions, targets, weights):
            words, references = _tokens(prediction), _references(prediction, target)
            nearest = min((abs(len(r) - len(words)), len(r)) for r in references)[1]
            found["lengths"] += weight * np.array([len(words), nearest])
            for n in range(1, self.order + 1):
                ours = _ngrams(words, n)
                allowed: Counter = Counter()
                for reference in references:
                    allowed |= _ngrams(reference, n)
                found["matches"][n - 1] += weight * (ours & allowed).total()
                found["ngrams"][n - 1] += weight * ours.total()
        return found

    def result(self, state: Any) -> float:
        """Return BLEU; NaN without sentences, and 0 if no word matches."""
        ours, reference = state["lengths"]
        if not reference and not ours:
            return float("nan")
        matches, ngrams = np.array(state["matches"]), np.array(state["ngrams"])
        if not matches.any():
            return 0.0
        if self.smoothing == "add-k":
            matches[1:] += 1
            ngrams[1:] += 1
        zero = matches == 0
        if self.smoothing == "floor":
            matches[zero] = 0.1
        elif self.smoothing == "exp":
            matches[zero] = 0.5 ** np.arange(1, 1 + zero.sum())
        if not (matches.all() and ngrams.all()):
            return 0.0
        return float(np.exp(np.mean(np.log(matches / ngrams)) + min(0.0, 1 - reference / ours)))


def _tokens(sentence: Any) -> list[Any]:
    if isinstance(sentence, str):
        return sentence.split()
    return sentence.tolist() if isinstance(sentence, np.ndarray) else list(sentence)


def _references(prediction, target) -> list[list[Any]]:
    """The references of a sentence: one, or several in a list."""
    if isinstance(prediction, str):
        several = not isinstance(target, str)
    else:
        several = len(target) > 0 and isinstance(target[0], Sequence | np.ndarray) and not isinstance(target[0], str)
    references = [_tokens(t) for t in target] if several else [_tokens(target)]
    if not references:
        raise ValueError("BLEU: every sentence must have a reference, got none")
    return references


def _ngrams(words, n) -> Counter:
    return Counter(tuple(words[k : k + n]) for k in range(len(words) - n + 1))
