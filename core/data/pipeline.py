"""`Source`: an immutable description of a stream of samples, with a method for each step of a pipeline.

A source is *indexed* if any sample can be read by its position, else it is a stream. Both give *jobs*: what can be done
by any worker (positions to read, transform and stack), each with the state from which the following jobs come. What has
to happen in order (a filter, a buffer) happens between jobs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import check
from .block import Block
from .iteration import Iteration

__all__ = ["InMemory", "Source"]


class InMemory(NamedTuple):
    """A pipeline of arrays in memory in the form that a compiled loop needs; see `Source.arrays_in_memory`.

    Attributes
    ----------
    arrays : tree of arrays
        All samples, along the leading axis.
    order : callable
        ``order(epoch)`` returns the (n,) int64 indices of the samples of an epoch.
    make : callable
        ``make(arrays, indices, epoch)`` returns a batch; it can be traced by `core.jit`. `indices` is an int64 array
        and `epoch` an int64 scalar.
    size : int
        Samples of a batch.
    drop_remainder : bool
        True if a last, smaller batch is left out.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> found = data.arrays(np.arange(10)).shuffle(seed=0).batch(4).arrays_in_memory()
    >>> found.size, found.order(0).shape
    (4, (10,))
    """

    arrays: Any
    order: Callable[[int], np.ndarray]
    make: Callable[[Any, Any, Any], Any]
    size: int
    drop_remainder: bool


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Source:
    """Samples in a defined order, and the methods that make pipelines of them.

    Iterating over a source gives the samples of epoch 0. See `arrays`, `memory_map`, `csv`, `parquet`, `folders`, `tar`
    and `generator` for the ways to make one.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> source = data.arrays(np.arange(5)).batch(2)
    >>> source
    arrays(5).batch(2)
    >>> len(source), list(source)
    (3, [array([0, 1]), array([2, 3]), array([4])])
    """

    # -- what a kind of source defines

    @property
    def indexed(self) -> bool:
        """True if samples can be read by their positions."""
        return True

    @property
    def batched(self) -> bool:
        """True if the elements are batches."""
        return False

    @property
    def maps(self) -> int:
        """Number of maps in the pipeline."""
        return 0

    def count(self) -> int | None:
        """Number of elements of an epoch; None if it is not known, or infinite."""
        raise NotImplementedError

    def rows(self, positions: np.ndarray, epoch: int) -> Block:
        """The elements at some positions of an epoch, for indexed sources."""
        raise NotImplementedError

    def elements(self, epoch: int, state: Any) -> Iterator[tuple[Any, int, int, Any]]:
        """Elements of a stream from a state on: value, id, epoch, and the state after the element."""
        raise NotImplementedError

    def describe(self, _index: int) -> str | None:
        """The file, or the like, of a sample."""
        return None

    def held(self) -> tuple[Any, Callable[[Any, Any], Any]] | None:
        """Arrays in memory, and a function of them and indices that returns stacked samples; None for other sources."""
        return None

    # -- jobs

    def feed(self, epoch: int, state: Any, size: int) -> Iterator[tuple[Any, int, Any]]:
        """Jobs of `size` elements (the last may have fewer): job, number of elements, state after the job."""
        if self.indexed:
            n = self.count()
            starts = itertools.count(state or 0, size) if n is None else range(state or 0, n, size)
            for start in starts:
                end = start + size if n is None else min(start + size, n)
                yield (np.arange(start, end), epoch), end - start, end
            return
        found, after = [], None
        for value, index, own, after in self.elements(epoch, state):
            found.append((value, index, own))
            if len(found) == size:
                yield _collected(found), size, after
                found = []
        if found:
            yield _collected(found), len(found), after

    def run(self, job: Any) -> Block:
        """Do a job; this may happen in any thread or process."""
        return self.rows(*job) if self.indexed else job

    # -- iteration

    def __len__(self) -> int:
        n = self.count()
        if n is None:
            raise TypeError(
                f"{self!r}: the number of elements is not known (a filter, a generator, or repeat() without a number)"
            )
        return n

    def __iter__(self) -> Iteration:
        return self.iterate()

    def __repr__(self) -> str:
        return f"{type(self).__name__.lower()}({self.count()})"

    def __getstate__(self) -> dict[str, Any]:  # without what is computed, or opened, when needed
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def iterate(self, epoch: int = 0, state: Any = None) -> Iteration:
        """Iterate over one epoch.

        Parameters
        ----------
        epoch : int, default 0
            Each epoch has another order, and other random numbers for transforms.
        state : dict, optional
            What ``state()`` of an iterator over the same pipeline and epoch returned. The iteration resumes at the
            element after the last one that was taken from it.

        Returns
        -------
        Iteration

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import data
        >>> source = data.arrays(np.arange(10)).shuffle(seed=1)
        >>> iterator = source.iterate(epoch=3)
        >>> first = [next(iterator) for _ in range(4)]
        >>> rest = list(source.iterate(epoch=3, state=iterator.state()))
        >>> sorted(int(k) for k in first + rest)
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        """
        return Iteration(self, check.integer(epoch, "iterate: epoch", 0), state)

    def arrays_in_memory(self) -> InMemory | None:
        """The pipeline as arrays, an order and a compiled function, or None.

        A pipeline has this form if it consists of arrays in memory, `shuffle`, `shard`, `take`, compiled maps, `batch`
        and `prefetch`. A training loop can then compile whole epochs.

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import data
        >>> found = data.arrays(np.arange(10.0)).map(data.image.normalize(0.0, 2.0)).batch(5).arrays_in_memory()
        >>> found.make(found.arrays, found.order(0)[:5], 0)
        array([0. , 0.5, 1. , 1.5, 2. ])
        """
        return _steps().in_memory(self)

    # -- steps of a pipeline

    def map(self, f: Callable[..., Any], *, on: Any = None, seed: int = 0) -> Source:
        """Apply a function to each element.

        Transforms (`data.image`, `data.audio`) and functions under `core.jit` are compiled, neighbors into one kernel
        that works on a whole block of samples. Other functions are called for each sample. A function with a parameter
        `key` gets the random key of the sample (see `sample_key`).

        Parameters
        ----------
        f : callable
        on : str, int, or tuple of these, optional
            Entries of the sample to which the function is applied, each with the same key. By default, transforms take
            the first entry of a tuple, and other functions take the whole sample.
        seed : int, default 0

        Raises
        ------
        DataError
            While iterating, if the function raises; the message names it, the sample and its file.

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import data
        >>> source = data.arrays({"x": np.arange(3), "y": np.ones(3)})
        >>> next(iter(source.map(lambda x: x + 1, on="x").batch(3)))["x"]
        array([1, 2, 3])
        """
        check.kind(f, Callable, "map: f")
        return _steps().Map(self, f, on, check.integer(seed, "map: seed"), self.maps)

    def filter(self, predicate: Callable[[Any], Any]) -> Source:
        """Keep the elements for which a function of the element is true.

        Parameters
        ----------
        predicate : callable

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import data
        >>> [int(k) for k in data.arrays(np.arange(6)).filter(lambda k: k % 2)]
        [1, 3, 5]
        """
        return _steps().Filter(self, predicate)

    def batch(self, size: int, drop_remainder: bool = False) -> Source:
        """Stack consecutive elements along a new leading axis.

        Parameters
        ----------
        size : int
        drop_remainder : bool, default False
            Leave out a last batch of fewer elements.

        Raises
        ------
        DataError
            While iterating, if elements differ in shape.

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import data
        >>> [b.shape for b in data.arrays(np.ones((5, 2))).batch(2, drop_remainder=True)]
        [(2, 2), (2, 2)]
        """
        n = self.count()
        size = check.integer(size, "batch: size", 1)
        if drop_remainder and n is not None and n < size:
            raise ValueError(
                f"batch: size must be at most {n}, the number of elements, if the remainder is dropped, got {size}"
            )
        return _steps().Batch(self, size, bool(drop_remainder))

    def shuffle(self, seed: int, buffer: int | None = None) -> Source:
        """Permute the elements, in another order each epoch.

        Parameters
        ----------
        seed : int
        buffer : int, optional
            Permute consecutive windows of this many elements, which are held in memory: for streams. By default, all
            elements are permuted; the order is computed on the fly, so that sources may be larger than memory.

        Raises
        ------
        TypeError
            If the source is a stream and `buffer` is not given.

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import data
        >>> source = data.arrays(np.arange(1000)).shuffle(seed=0)
        >>> [int(k) for k in source.iterate(epoch=0)] == [int(k) for k in source.iterate(epoch=1)]
        False
        """
        seed = check.integer(seed, "shuffle: seed")
        if buffer is not None:
            return _steps().Buffer(self, seed, check.integer(buffer, "shuffle: buffer", 1))
        if not self.indexed or self.count() is None:
            raise TypeError(
                f"shuffle: a stream needs a buffer, got {self!r} (shuffle(seed, buffer=1000), or shuffle "
                "before the step that makes it a stream)"
            )
        return _steps().Shuffle(self, seed)

    def interleave(self, *others: Source) -> Source:
        """Take elements in turns from this source and others, until all have ended.

        Parameters
        ----------
        *others : Source

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import data
        >>> both = data.arrays(np.arange(3)).interleave(data.arrays(np.array([10, 11])))
        >>> [int(k) for k in both]
        [0, 10, 1, 11, 2]
        """
        if not others or not all(isinstance(s, Source) for s in others):
            raise TypeError(f"interleave: must be given other sources, got {others!r}")
        return _steps().Interleave((self, *others))

    def repeat(self, times: int | None = None) -> Source:
        """Make one epoch of several passes, each in another order.

        Parameters
        ----------
        times : int, optional
            By default, passes follow without end.

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import data
        >>> [int(k) for k in data.arrays(np.arange(3)).repeat(2)]
        [0, 1, 2, 0, 1, 2]
        """
        return _steps().Repeat(self, None if times is None else check.integer(times, "repeat: times", 1))

    def cache(self) -> Source:
        """Keep elements in memory once they have been computed.

        All epochs see the elements of epoch 0, in its order: put random steps behind the cache.

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import data
        >>> source = data.arrays(np.arange(3)).map(lambda k: print("read", k) or k).cache()
        >>> [int(k) for k in source.take(1)], [int(k) for k in source.take(1)]
        read 0
        ([0], [0])
        """
        return _steps().Cache(self)

    def prefetch(self, ahead: int = 2, *, workers: int = 1, processes: bool = False) -> Source:
        """Compute the steps up to here ahead of time in other threads or processes.

        Elements, their order and the position are the same for any number of workers. Reading files, decoding images
        and compiled transforms run in parallel in threads; processes help only Python functions, and need functions and
        sources that can be pickled.

        Parameters
        ----------
        ahead : int, default 2
            Elements (or jobs of 16 samples, before `batch`) that are computed ahead, for each worker.
        workers : int, default 1
        processes : bool, default False

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import data
        >>> source = data.arrays(np.arange(6.0)).map(data.image.normalize(1.0, 2.0)).batch(3).prefetch(workers=2)
        >>> next(iter(source))
        array([-0.5,  0. ,  0.5])
        """
        return _steps().Prefetch(
            self,
            check.integer(ahead, "prefetch: ahead", 1),
            check.integer(workers, "prefetch: workers", 1),
            bool(processes),
        )

    def shard(self, index: int, count: int) -> Source:
        """Keep every `count`-th element, from element `index` on, for one of several processes.

        Parameters
        ----------
        index, count : int
            With ``0 <= index < count``.

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import data
        >>> [int(k) for k in data.arrays(np.arange(7)).shard(1, 3)]
        [1, 4]
        """
        count = check.integer(count, "shard: count", 1)
        index = check.integer(index, "shard: index", 0, count - 1)
        n = self.count()
        if n is not None and index >= n:
            raise ValueError(f"shard: count must be at most {n}, the number of elements, got index {index} of {count}")
        return _steps().Shard(self, index, count)

    def take(self, n: int) -> Source:
        """Keep the first `n` elements.

        Parameters
        ----------
        n : int

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import data
        >>> [int(k) for k in data.arrays(np.arange(7)).take(2)]
        [0, 1]
        """
        return _steps().Take(self, check.integer(n, "take: n", 1))


def _steps():
    """The module of the steps, which stand above their base."""
    from . import nodes

    return nodes


def _collected(found):
    values, ids, epochs = zip(*found, strict=True)
    return Block(list(values), np.array(ids, np.int64), np.array(epochs, np.int64), False)
