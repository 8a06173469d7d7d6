"""Optimisers, learning-rate schedules and gradient clipping."""

from triskele.core.optim.lbfgs import LBFGS, Result
from triskele.core.optim.optimizers import SGD, Adam, AdamW, RMSprop, clip_by_global_norm, clip_by_value, global_norm
from triskele.core.optim.schedules import cosine_decay, exponential_decay, piecewise_constant, warmup

__all__ = [
    "LBFGS", "SGD", "Adam", "AdamW", "RMSprop", "Result", "clip_by_global_norm", "clip_by_value", "cosine_decay",
    "exponential_decay", "global_norm", "piecewise_constant", "warmup",
]
