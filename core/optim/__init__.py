"""Optimisers, learning-rate schedules and gradient clipping."""

from .lbfgs import LBFGS, Result
from .optimizers import SGD, Adam, AdamW, RMSprop, clip_by_global_norm, clip_by_value, global_norm
from .schedules import cosine_decay, exponential_decay, piecewise_constant, warmup

__all__ = [
    "LBFGS", "SGD", "Adam", "AdamW", "RMSprop", "Result", "clip_by_global_norm", "clip_by_value", "cosine_decay",
    "exponential_decay", "global_norm", "piecewise_constant", "warmup",
]
