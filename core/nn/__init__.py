"""Neural networks: layers as dataclass trees, activations, losses, initialisers."""

from . import init
from .attention import MultiHeadAttention
from .functional import (
    cross_entropy,
    gelu,
    log_softmax,
    mean_squared_error,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
)
from .layers import MLP, BatchNorm, Conv, Conv1d, Conv2d, Embedding, LayerNorm, Linear, static
from .recurrent import GRU, LSTM

__all__ = [
    "GRU", "LSTM", "MLP", "BatchNorm", "Conv", "Conv1d", "Conv2d", "Embedding", "LayerNorm", "Linear",
    "MultiHeadAttention", "cross_entropy", "gelu", "init", "log_softmax", "mean_squared_error", "relu", "sigmoid",
    "silu", "softmax", "softplus", "static",
]
