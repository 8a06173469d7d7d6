"""Text as arrays: vocabularies of characters or words, and windows of a long array of tokens."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import check
from ..errors import DataError
from .block import Block
from .pipeline import Source

__all__ = ["Vocabulary", "vocabulary", "windows"]

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclasses.dataclass(frozen=True, repr=False)
class Vocabulary:
    """Tokens and their numbers; `vocabulary` makes it.

    Parameters
    ----------
    tokens : tuple of str
        Token k has number k.
    words : bool
        True if the tokens are words and punctuation marks, False if they are characters.
    unknown : str or None
        The token that stands for all others; None if others are errors.

    Examples
    --------
    >>> from triskele.core import data
    >>> letters = data.text.vocabulary("hello")
    >>> letters
    Vocabulary(4 characters)
    >>> letters.encode("hole"), letters.decode([1, 3])
    (array([1, 3, 2, 0]), 'ho')
    """

    tokens: tuple[str, ...]
    words: bool
    unknown: str | None = None

    def __post_init__(self) -> None:
        numbers = {t: k for k, t in enumerate(self.tokens)}
        if len(numbers) != len(self.tokens):
            raise ValueError("text.Vocabulary: tokens must differ from each other")
        if self.unknown is not None:
            check.choice(self.unknown, numbers, "text.Vocabulary: unknown")
        object.__setattr__(self, "_numbers", numbers)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        unknown = "" if self.unknown is None else f", unknown={self.unknown!r}"
        return f"Vocabulary({len(self)} {'words' if self.words else 'characters'}{unknown})"

    def encode(self, text: str) -> np.ndarray:
        """Numbers of the tokens of a text, (n,) int64; raises DataError at an unknown token if there is none for it."""
        numbers = self._numbers  # type: ignore[attr-defined]
        found = _tokens(text, self.words)
        if self.unknown is None:
            for k, token in enumerate(found):
                if token not in numbers:
                    kind = "word" if self.words else "character"
                    raise DataError(
                        f"text.encode: every {kind} must be in the vocabulary, got {token!r} at {kind} {k} "
                        "(vocabulary(..., unknown='?') makes a token for all others)"
                    )
            return np.array([numbers[t] for t in found], np.int64)
        other = numbers[self.unknown]
        return np.array([numbers.get(t, other) for t in found], np.int64)

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of numbers; words are separated by spaces."""
        found = np.asarray(list(numbers) if not isinstance(numbers, np.ndarray) else numbers)
        if found.size and (found.min() < 0 or found.max() >= len(self)):
            raise DataError(
                f"text.decode: numbers must be from 0 to {len(self) - 1}, got {found.min()} to {found.max()}"
            )
        return (" " if self.words else "").join(self.tokens[k] for k in found.ravel().tolist())


def _tokens(text, words):
    return _WORD.findall(text) if words else text


def vocabulary(
    text: str | Iterable[str], *, words: bool = False, size: int | None = None, unknown: str | None = None
) -> Vocabulary:
    """Collect the tokens of a text.

    Characters are numbered in the order of their code points, words by how often they occur.

    Parameters
    ----------
    text : str, or iterable of str
    words : bool, default False
        Take words and punctuation marks as tokens, instead of characters.
    size : int, optional
        Keep this many tokens, the most frequent ones. Needs `unknown`, which counts as one of them.
    unknown : str, optional
        Token that stands for all that are not in the vocabulary, with number 0.

    Returns
    -------
    Vocabulary

    Raises
    ------
    ValueError
        If the text is empty.

    Examples
    --------
    >>> from triskele.core import data
    >>> found = data.text.vocabulary("the cat and the dog", words=True, size=3, unknown="?")
    >>> found.tokens, found.encode("the bird")
    (('?', 'the', 'and'), array([1, 0]))
    """
    counts = Counter(t for part in ([text] if isinstance(text, str) else text) for t in _tokens(part, words))
    if not counts:
        raise ValueError("text.vocabulary: the text must have at least one token, got an empty text")
    if size is not None and unknown is None:
        raise ValueError("text.vocabulary: size must come with unknown, the token that stands for all others")
    counts.pop(unknown, None)
    ranked = sorted(counts, key=lambda t: (-counts[t], t))
    if size is not None:
        ranked = ranked[: check.integer(size, "text.vocabulary: size", 2) - 1]
    ordered = ranked if words else sorted(ranked)
    return Vocabulary((*([] if unknown is None else [unknown]), *ordered), words, unknown)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Windows(Source):
    """See `windows`."""

    tokens: np.ndarray
    length: int
    stride: int

    def __repr__(self) -> str:
        return f"windows({self.count()} of {self.length})"

    def count(self) -> int:
        return (len(self.tokens) - self.length - 1) // self.stride + 1

    def rows(self, positions: np.ndarray, epoch: int) -> Block:
        return Block(self._at(self.tokens, positions), positions, np.full(len(positions), epoch, np.int64), True)

    def describe(self, index: int) -> str:
        return f"token {index * self.stride}"

    def held(self) -> Any:
        return None if isinstance(self.tokens, np.memmap) else (self.tokens, self._at)

    def _at(self, tokens, positions):
        places = positions[:, None] * self.stride + np.arange(self.length)
        return tokens[places], tokens[places + 1]  # not views of one array: compiled steps are slower with such


def windows(tokens: np.ndarray, length: int, stride: int | None = None) -> Source:
    """Make a source of windows of a token array; samples are (inputs, targets), shifted by one token.

    Parameters
    ----------
    tokens : (n,) integer array
        A memory map works, too.
    length : int
        Tokens of the inputs, and of the targets.
    stride : int, optional
        Distance between the beginnings of windows. By default `length`: the windows do not overlap.

    Returns
    -------
    Source

    Raises
    ------
    ValueError
        If there are not at least ``length + 1`` tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> inputs, targets = next(iter(data.text.windows(np.arange(100), 4)))
    >>> inputs, targets
    (array([0, 1, 2, 3]), array([1, 2, 3, 4]))
    """
    tokens = tokens if isinstance(tokens, np.ndarray) else np.asarray(tokens)
    length = check.integer(length, "text.windows: length", 1)
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu" or len(tokens) <= length:
        raise ValueError(
            f"text.windows: tokens must be at least {length + 1} integers in one array, got "
            f"{tokens.dtype} of shape {tokens.shape}"
        )
    return Windows(tokens, length, length if stride is None else check.integer(stride, "text.windows: stride", 1))
