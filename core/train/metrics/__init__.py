"""Metrics that stream: the result does not depend on how samples are split into batches or in which order states merge.

A metric is a frozen dataclass of options. `init` returns a state (a tree of arrays), `update` adds a batch, `merge`
adds the state of other batches, and `result` returns the metric. Sums and counts are float64, whatever the inputs.
Weights have the shape of the targets or of their leading axes; boolean weights are a mask. A sample of weight 0 does
not count: neither its label nor its prediction is looked at.
"""

from ...imports.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
