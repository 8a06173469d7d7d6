"""Transformers that predict the next token, in the styles of GPT-2 and Llama, with generation of text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import check, random
from ..compile.jit import jit
from ..nn import Embedding, LayerNorm, Linear, RMSNorm, attention, gelu_tanh, silu, static
from ..nn.entries import check_entries, pick_entries
from ..ops.index import getitem, index_update
from ..show.short_repr import short_repr
from ..transforms.control.operators import scan

__all__ = ["Transformer"]


def _normal(key, shape, dtype=np.float32, *, deviation=0.02):
    return random.normal(key, shape, dtype=dtype) * np.asarray(deviation, dtype)


def _rotated(x: Any, base: float, length: int, positions: Any) -> Any:
    """Turn pairs of features (i, i + depth / 2) of x (..., tokens, heads, depth) by position / base^(2 i / depth).

    `positions` are below `length`; without them, tokens stand at 0, 1, 2, ...
    """
    half = np.shape(x)[-1] // 2
    angles = np.arange(length)[:, None] * base ** (-np.arange(half) / half)
    tables = [f(angles).astype(np.result_type(x)) for f in (np.cos, np.sin)]
    if positions is not None:
        tables = [getitem(table, positions) for table in tables]
    cos, sin = (table[:, None, :] for table in tables)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


@short_repr
@dataclass(frozen=True)
class _SelfAttention:
    """Causal attention with heads that may share keys and values; `base` is that of rotary positions, or None."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    heads: int = static()
    key_heads: int = static()
    base: float | None = static(default=None)

    def __call__(self, x: Any, memory: Any = None, positions: Any = None) -> tuple[Any, Any]:
        """Attend to the tokens of `x` (batch, tokens, width), or to `memory` once they are in it at `positions`."""
        batch, tokens, width = np.shape(x)
        parts = ((self.query, self.heads), (self.key, self.key_heads), (self.value, self.key_heads))
        q, k, v = (np.reshape(layer(x), (batch, tokens, heads, -1)) for layer, heads in parts)
        length = tokens if memory is None else np.shape(memory[0])[1]
        if self.base is not None:
            q, k = (_rotated(y, self.base, length, positions) for y in (q, k))
        if memory is None:
            y = attention(q, k, v, causal=True)
        else:
            k, v = memory = tuple(
                index_update(old, (slice(None), positions), new) for old, new in zip(memory, (k, v), strict=True)
            )
            y = attention(q, k, v, mask=np.arange(length) <= positions[:, None])
        return self.output(np.reshape(y, (batch, tokens, width))), memory


@short_repr
@dataclass(frozen=True)
class _FeedForward:
    """``down(gelu(up(x)))``, or ``down(silu(gate(x)) * up(x))`` with a gate (Shazeer 2020, eq. 6)."""

    up: Linear
    down: Linear
    gate: Linear | None = None

    def __call__(self, x: Any) -> Any:
        return self.down(gelu_tanh(self.up(x)) if self.gate is None else silu(self.gate(x)) * self.up(x))


@short_repr
@dataclass(frozen=True)
class _Block:
    """Attention and a feed-forward network, each added to its normalized input's origin."""

    attention_norm: Any
    attention: _SelfAttention
    feed_norm: Any
    feed: _FeedForward

    def __call__(self, x: Any, memory: Any = None, positions: Any = None) -> tuple[Any, Any]:
        y, memory = self.attention(self.attention_norm(x), memory, positions)
        x = x + y
        return x + self.feed(self.feed_norm(x)), memory


class Cache(NamedTuple):
    """Keys and values of the tokens so far: (batch, length, key heads, depth) for each block, of which `used` count."""

    memory: tuple[tuple[Any, Any], ...]
    used: Any


@short_repr
@dataclass(frozen=True)
class Transformer:
    """Decoder-only transformer (Radford et al. 2019; Touvron et al. 2023).

    `gpt2` and `llama` make one with fresh weights. Called with tokens (..., n), it returns logits of the next tokens.

    Attributes
    ----------
    tokens : Embedding
    positions : (context, width) array, or None
        Learned positions; without them positions are rotary (Su et al. 2021, eq. 34).
    blocks : tuple
        Each normalizes, attends and adds, then normalizes, applies a feed-forward network and adds.
    norm : LayerNorm or RMSNorm
    head : Linear, or None
        None if the logits are products with the embedding of the tokens.
    context : int
        Greatest number of tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import models, random
    >>> net = models.Transformer.gpt2(random.key(0), 65, context=32, width=16, layers=2, heads=2)
    >>> prompt = np.array([[1, 2, 3]])
    >>> net(prompt).shape
    (1, 3, 65)
    >>> net.generate(prompt, 4, temperature=0).shape
    (1, 4)
    """

    tokens: Embedding
    positions: Any
    blocks: tuple[_Block, ...]
    norm: Any
    head: Linear | None = None
    context: int = static(default=1024)

    @classmethod
    def gpt2(
        cls,
        key: Any,
        vocabulary: int,
        *,
        context: int = 1024,
        width: int = 768,
        layers: int = 12,
        heads: int = 12,
        dtype: DTypeLike = np.float32,
    ) -> Transformer:
        """Make a network in the style of GPT-2: learned positions, LayerNorm, GELU, tied embedding.

        Parameters
        ----------
        key : key
            Source of the random weights; see `random.key`. They are normal with deviation 0.02, smaller by
            ``sqrt(2 * layers)`` where a block adds its result (Radford et al. 2019, section 2.3).
        vocabulary : int
            Number of different tokens.
        context : int, default 1024
            Greatest number of tokens.
        width, layers, heads : int
            Defaults are those of the smallest GPT-2. `heads` divides `width`.
        dtype : dtype, default float32

        Returns
        -------
        Transformer

        Raises
        ------
        ValueError
            If `heads` does not divide `width`.
        """
        make = _Maker(key, layers, width, heads, heads, dtype)
        tokens, positions = (_normal(make.key(), (n, width), dtype) for n in (vocabulary, context))
        norm = partial(LayerNorm.init, width, dtype=dtype)
        blocks = [make.block(norm, 4 * width, bias=True) for _ in range(layers)]
        return cls(Embedding(tokens), positions, tuple(blocks), norm(), None, context)

    @classmethod
    def llama(
        cls,
        key: Any,
        vocabulary: int,
        *,
        context: int = 2048,
        width: int = 768,
        layers: int = 12,
        heads: int = 12,
        key_heads: int | None = None,
        hidden: int | None = None,
        base: float = 10_000.0,
        epsilon: float = 1e-6,
        dtype: DTypeLike = np.float32,
    ) -> Transformer:
        """Make a network in the style of Llama: rotary positions, RMSNorm, gated units, no biases.

        Parameters
        ----------
        key : key
            Source of the random weights; see `random.key`.
        vocabulary : int
            Number of different tokens.
        context : int, default 2048
            Greatest number of tokens.
        width, layers, heads : int
            `heads` divides `width`.
        key_heads : int, optional
            Heads of keys and values, each shared by ``heads // key_heads`` heads (Ainslie et al. 2023). By default
            `heads`.
        hidden : int, optional
            Width of the gated units. By default ``8 / 3 * width``, rounded up to a multiple of 256.
        base : float, default 10000
            Of the wavelengths of rotary positions.
        epsilon : float, default 1e-6
            Of the normalizations.
        dtype : dtype, default float32

        Returns
        -------
        Transformer

        Raises
        ------
        ValueError
            If `heads` does not divide `width`, `key_heads` does not divide `heads`, or heads have an odd size.
        """
        make = _Maker(key, layers, width, heads, heads if key_heads is None else key_heads, dtype)
        if width // heads % 2:
            raise ValueError(f"Transformer: rotary positions need heads of even size, got {width // heads}")
        tokens = _normal(make.key(), (vocabulary, width), dtype)
        norm = partial(RMSNorm.init, width, epsilon=epsilon, dtype=dtype)
        hidden = -(-8 * width // 768) * 256 if hidden is None else hidden
        blocks = [make.block(norm, hidden, bias=False, base=float(base)) for _ in range(layers)]
        return cls(Embedding(tokens), None, tuple(blocks), norm(), make.linear(width, vocabulary, False), context)

    def __call__(self, tokens: Any) -> NDArray[Any]:
        """Logits (..., n, vocabulary) of the token that follows each of `tokens` (..., n)."""
        shape = np.shape(tokens)
        if not shape or not 0 < shape[-1] <= self.context:
            raise ValueError(
                f"Transformer: tokens must be (..., n) with n from 1 to the context of {self.context}, "
                f"got shape {shape}"
            )
        x = self._embedded(np.reshape(tokens, (math.prod(shape[:-1]), shape[-1])))
        if self.positions is not None:
            x = x + self.positions[: shape[-1]]
        for block in self.blocks:
            x, _ = block(x)
        y = self._logits(x)
        return np.reshape(y, (*shape, np.shape(y)[-1]))

    def _embedded(self, tokens):
        return pick_entries("Transformer: tokens", tokens, np.shape(self.tokens.weight)[0], self.tokens)

    def _logits(self, x):
        x = self.norm(x)
        return x @ np.swapaxes(self.tokens.weight, 0, 1) if self.head is None else self.head(x)

    def cache(self, batch: int, length: int) -> Cache:
        """Return an empty cache of `length` tokens for `extend`.

        Parameters
        ----------
        batch, length : int

        Returns
        -------
        Cache
        """
        check.integer(length, "Transformer.cache: length", 1, self.context)
        dtype, made = self.tokens.weight.dtype, []
        for block in self.blocks:
            layer = block.attention
            depth = np.shape(layer.key.weight)[1] // layer.key_heads
            empty = np.zeros((batch, length, layer.key_heads, depth), dtype)
            made.append((empty, np.zeros_like(empty)))
        return Cache(tuple(made), np.int64(0))

    def extend(self, tokens: Any, cache: Cache) -> tuple[NDArray[Any], Cache]:
        """Append tokens to those in a cache, whose keys and values are not computed again.

        Parameters
        ----------
        tokens : (batch, n) integer array
        cache : Cache
            With room for n more tokens; what exceeds it is an error of the index.

        Returns
        -------
        logits : (batch, n, vocabulary) array
            Of the token that follows each of `tokens`.
        cache : Cache

        Examples
        --------
        >>> import numpy as np
        >>> from triskele.core import models, random
        >>> net = models.Transformer.llama(random.key(0), 65, width=16, layers=2, heads=4, key_heads=2)
        >>> logits, cache = net.extend(np.array([[1, 2]]), net.cache(1, 8))
        >>> more, cache = net.extend(np.array([[3]]), cache)
        >>> bool(np.allclose(more[:, 0], net(np.array([[1, 2, 3]]))[:, -1], atol=1e-6))
        True
        """
        positions = cache.used + np.arange(np.shape(tokens)[1])
        x = self._embedded(tokens)
        if self.positions is not None:
            x = x + getitem(self.positions, positions)
        memory = []
        for block, old in zip(self.blocks, cache.memory, strict=True):
            x, new = block(x, old, positions)
            memory.append(new)
        return self._logits(x), Cache(tuple(memory), cache.used + np.shape(tokens)[1])

    def generate(
        self, prompt: Any, length: int, *, temperature: float = 1.0, top_k: int | None = None, key: Any = None
    ) -> NDArray[Any]:
        """Draw tokens that continue a prompt, in one compiled loop with a cache of keys and values.

        It compiles once for each shape of the prompt, `length` and `top_k`.

        Parameters
        ----------
        prompt : (..., n) integer array
        length : int
            Number of tokens to draw. Prompt and result must fit into the context.
        temperature : float, default 1.0
            Divides the logits; 0 takes the most probable token.
        top_k : int, optional
            Draw among the `top_k` most probable tokens only.
        key : key, optional
            Source of random numbers; see `random.key`. Not needed at temperature 0.

        Returns
        -------
        (..., length) int64 array

        Raises
        ------
        ValueError
            If an argument is out of range, or if the key is missing.
        IndexOutOfBoundsError
            If a token of the prompt is not in the vocabulary.
        """
        prompt = np.asarray(prompt)
        if not prompt.ndim or not prompt.shape[-1] or prompt.dtype.kind not in "iu":
            raise ValueError(
                "Transformer.generate: prompt must be (..., n) integers with n > 0, got "
                f"{prompt.dtype} of shape {prompt.shape}"
            )
        check.integer(length, "Transformer.generate: length", 1)
        if prompt.shape[-1] + length > self.context:
            raise ValueError(
                f"Transformer.generate: prompt and length must be at most the context of {self.context}, "
                f"got {prompt.shape[-1]} + {length}"
            )
        check.number(temperature, "Transformer.generate: temperature", 0)
        if top_k is not None:
            check.integer(top_k, "Transformer.generate: top_k", 1, np.shape(self.tokens.weight)[0])
        if key is None and temperature > 0:
            raise ValueError("Transformer.generate: key must be given at temperatures above 0 (random.key(seed))")
        check_entries("Transformer.generate: tokens of the prompt", prompt, np.shape(self.tokens.weight)[0])
        flat = prompt.reshape(-1, prompt.shape[-1]).astype(np.int64)
        drawn = _generate(
            self,
            flat,
            random.key(0) if key is None else key,
            np.float64(temperature or 1.0),
            length=int(length),
            top_k=top_k,
            greedy=temperature == 0,
        )
        return drawn.reshape(*prompt.shape[:-1], length)


@jit(static_argnames=("length", "top_k", "greedy"))
def _generate(net, prompt, key, temperature, *, length, top_k, greedy):
    batch, n = prompt.shape
    logits, cache = net.extend(prompt, net.cache(batch, n + length))

    def step(carry, k):
        cache, logits = carry
        token = _draw(logits, random.fold_in(key, k), temperature, top_k, greedy)
        logits, cache = net.extend(token[:, None], cache)
        return (cache, logits[:, 0]), token

    _, tokens = scan(step, (cache, logits[:, -1]), np.arange(length))
    return np.swapaxes(tokens, 0, 1)


def _draw(logits, key, temperature, top_k, greedy):
    if greedy:
        return np.argmax(logits, axis=-1)
    logits = logits / np.astype(temperature, logits.dtype)
    if top_k is not None:
        logits = np.where(logits < np.sort(logits, axis=-1)[:, -top_k, None], -np.inf, logits)
    return random.categorical(key, logits)


class _Maker:
    """Makes the parts of one network."""

    def __init__(self, key: Any, layers: int, width: int, heads: int, key_heads: int, dtype: DTypeLike):
        for name, n in (("layers", layers), ("width", width), ("heads", heads), ("key_heads", key_heads)):
            check.integer(n, f"Transformer: {name}", 1)
        if width % heads or heads % key_heads:
            raise ValueError(
                f"Transformer: heads must divide the width and key_heads the heads, got width {width}, "
                f"heads {heads}, key_heads {key_heads}"
            )
        self._keys = iter(random.split(key, 7 * layers + 3))
        self.width, self.heads, self.key_heads, self.dtype = width, heads, key_heads, dtype
        self.smaller = 0.02 / math.sqrt(2 * layers)

    def key(self) -> Any:
        return next(self._keys)

    def linear(self, n_in: int, n_out: int, bias: bool, deviation: float = 0.02) -> Linear:
        return Linear.init(
            self.key(), n_in, n_out, bias=bias, initializer=partial(_normal, deviation=deviation), dtype=self.dtype
        )

    def block(self, norm: Any, hidden: int, *, bias: bool, base: float | None = None) -> _Block:
        """A block; `base` is that of rotary positions, with which come gated units."""
        width, shared = self.width, self.width // self.heads * self.key_heads
        attend = _SelfAttention(
            self.linear(width, width, bias),
            self.linear(width, shared, bias),
            self.linear(width, shared, bias),
            self.linear(width, width, bias, self.smaller),
            self.heads,
            self.key_heads,
            base,
        )
        feed = _FeedForward(
            self.linear(width, hidden, bias),
            self.linear(hidden, width, bias, self.smaller),
            None if base is None else self.linear(width, hidden, bias),
        )
        return _Block(norm(), attend, norm(), feed)
