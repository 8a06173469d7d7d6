"""Neural networks: layers as dataclass trees, activations, losses, initialisers."""

from triskele.core.nn import init
from triskele.core.nn.attention import MultiHeadAttention
from triskele.core.nn.functional import (
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
from triskele.core.nn.layers import MLP, BatchNorm, Conv, Conv1d, Conv2d, Embedding, LayerNorm, Linear, static
from triskele.core.nn.recurrent import GRU, LSTM

__all__ = [
    "GRU", "LSTM", "MLP", "BatchNorm", "Conv", "Conv1d", "Conv2d", "Embedding", "LayerNorm", "Linear", "MultiHeadAttention",
    "cross_entropy", "gelu", "init", "log_softmax", "mean_squared_error", "relu", "sigmoid", "silu", "softmax", "softplus", "static",
]
