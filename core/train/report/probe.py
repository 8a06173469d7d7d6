"""One batch of a run, kept to look at the network with: histograms of parameters and gradients, and samples."""

from __future__ import annotations

import base64
import contextlib
import struct
import zlib
from typing import Any

import numpy as np

from ... import tree

__all__ = ["first_batch", "histograms", "image_url", "png", "samples"]

_BINS = 40
_LARGEST = 1e300  # differences of larger numbers overflow
_LOOKED_AT = 1 << 14  # elements of an array, at equal distances
_SAMPLES = 16


def first_batch(source: Any) -> Any:
    """The first batch of epoch 0, as the network sees it."""
    if not hasattr(source, "iterate"):
        return next(iter(source))
    with contextlib.closing(source.iterate(0)) as iterator:
        return next(iterator)


def histograms(values: Any) -> dict[str, dict[str, Any]]:
    """Counts between the smallest and the largest number, and moments, of each array by its path."""
    found = {}
    for path, leaf in tree.paths(values):
        x = np.asarray(leaf)
        x = np.abs(x).ravel() if x.dtype.kind == "c" else x.ravel()
        finite = x[:: max(1, x.size // _LOOKED_AT)].astype(np.float64)
        finite = finite[np.abs(finite) < _LARGEST]  # no NaN either
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
        least = 1e-6 * max(abs(low), abs(high), 1e6 * (low == high))  # bins of a narrower range may not differ
        wide = 0.5 * least if high - low < least else 0.0
        counts, _ = np.histogram(finite, _BINS, (low - wide, high + wide))
        scale = max(abs(low), abs(high)) or 1.0  # squares overflow sooner
        norm = scale * float(np.sqrt(np.mean((finite / scale) ** 2))) if len(finite) else 0.0
        found[path] = {
            "low": low,
            "high": high,
            "counts": counts.tolist(),
            "rms": norm,
            "not finite": int(np.size(x) - np.count_nonzero(np.isfinite(x))),
        }
    return found


def samples(batch: Any) -> dict[str, Any]:
    """Inputs of a batch: shapes, and pictures of the first images if they look like images."""
    inputs, *rest = batch
    leaves = [
        (f"inputs{'.' * bool(path) + path if not path.startswith('[') else path}", np.asarray(x))
        for path, x in tree.paths(inputs)
    ]
    targets = [
        (f"targets{'.' * bool(path) + path if not path.startswith('[') else path}", np.asarray(x))
        for path, x in tree.paths(rest[0])
    ]
    shown = [image_url(x) for x in leaves[0][1][:_SAMPLES]] if leaves and _is_images(leaves[0][1]) else []
    labels = targets[0][1][:_SAMPLES].tolist() if targets and targets[0][1].ndim == 1 else []
    with np.errstate(over="ignore", invalid="ignore"):  # they are shown as they are
        arrays = {
            name: {
                "type": f"{x.dtype}{list(x.shape)}",
                "low": float(np.min(x)),
                "high": float(np.max(x)),
                "mean": float(np.mean(x)),
            }
            for name, x in leaves + targets
            if x.size and x.dtype.kind in "biuf"
        }
    return {"arrays": arrays, "images": shown, "labels": labels}


def _is_images(x):
    return x.ndim == 4 and x.shape[3] in (1, 3, 4) and min(x.shape[1:3]) >= 4 or x.ndim == 3 and min(x.shape[1:3]) >= 8


def image_url(x: np.ndarray) -> str:
    """Return an image of (height, width) or (height, width, 1, 3 or 4) numbers as the data URL of a PNG.

    Integers of 8 bits are taken as they are; other numbers are scaled so that the smallest is 0 and the largest 255.
    """
    x = np.asarray(x)
    x = x[..., None] if x.ndim == 2 else x
    if x.dtype != np.uint8:
        x = np.nan_to_num(x.astype(np.float64))
        span = x.max() - x.min()
        x = np.round(255 * (x - x.min()) / (span if span > 0 else 1)).astype(np.uint8)
    return png(x)


def png(x: np.ndarray) -> str:
    """The address of a PNG that holds (height, width, 1, 3 or 4) integers of 8 bits."""
    height, width, channels = x.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), x.reshape(height, -1)], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    parts = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()
