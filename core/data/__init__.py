"""Data pipelines: sources, shuffling, transforms that fuse into one kernel per batch, batches, and exact positions.

A pipeline is an immutable description. ``for batch in source`` runs one epoch; `Source.iterate` starts any epoch, and
its `state()` resumes it at the same element. The order and the random numbers of transforms follow from seeds, the
epoch and the index of each sample, so that they do not depend on workers or on the size of batches.
"""

from ..imports.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
