"""Transforms of sound, (samples,) arrays of floats: short-time Fourier transform and mel spectrograms.

Time is the first axis of results and frequency the last one, as channels are.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any

import numpy as np

from .. import check
from .transform import Transform

__all__ = ["mel_filters", "mel_spectrogram", "stft"]


def _frames(x, size, hop, center):
    """Frames of a signal times the periodic Hann window."""
    where = "audio.stft"
    if np.ndim(x) != 1 or np.dtype(x.dtype).kind != "f":
        raise ValueError(f"{where}: a signal must be a floating array of shape (samples,), got {x.dtype} {np.shape(x)}")
    n = np.shape(x)[0]
    if center:
        if n <= size // 2:
            raise ValueError(
                f"{where}: a centered signal must have more than {size // 2} samples, half the window, got {n}"
            )
        x = np.concatenate([x[size // 2 : 0 : -1], x, x[-2 : -size // 2 - 2 : -1]])
        n += size // 2 * 2
    if n < size:
        raise ValueError(f"{where}: a signal must have at least {size} samples, the window, got {n}")
    at = hop * np.arange((n - size) // hop + 1)[:, None] + np.arange(size)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    return x[at] * window.astype(x.dtype)


@dataclasses.dataclass(frozen=True)
class STFT(Transform):
    """See `stft`."""

    size: int
    hop: int
    center: bool

    def apply(self, x: Any) -> Any:
        return np.fft.rfft(_frames(x, self.size, self.hop, self.center))


def stft(size: int = 1024, hop: int | None = None, *, center: bool = True) -> STFT:
    """Short-time Fourier transform with a periodic Hann window.

    Frame t is ``rfft(window * x[t * hop : t * hop + size])``, without scaling, as in ``torch.stft`` and
    ``librosa.stft``.

    Parameters
    ----------
    size : int, default 1024
        Samples of the window, and of the transform.
    hop : int, optional
        Samples between frames. Default: a quarter of `size`.
    center : bool, default True
        Extend the signal by half a window at both ends by reflection, so that frame t is centered at sample t * hop.

    Returns
    -------
    STFT
        Transform from (samples,) floats to (frames, size // 2 + 1) complex numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> tone = np.sin(2 * np.pi * 8 / 64 * np.arange(256))
    >>> spectrum = data.audio.stft(64)(tone)
    >>> spectrum.shape, int(np.argmax(abs(spectrum[8])))
    ((17, 33), 8)
    """
    size = check.integer(size, "audio.stft: size", 2)
    return STFT(size, max(1, size // 4) if hop is None else check.integer(hop, "audio.stft: hop", 1), bool(center))


# -- mel ---------------------------------------------------------------------------------------------------------------


def _to_mel(frequency, scale):
    """Mel of Hz: 2595 log10(1 + f / 700) (HTK), or linear below 1 kHz and logarithmic above (Slaney)."""
    f = np.asarray(frequency, float)
    if scale == "htk":
        return 2595 * np.log10(1 + f / 700)
    return np.where(f < 1000, f * 3 / 200, 15 + np.log(np.maximum(f, 1000) / 1000) * 27 / np.log(6.4))


def _to_hertz(mel, scale):
    m = np.asarray(mel, float)
    if scale == "htk":
        return 700 * (10 ** (m / 2595) - 1)
    return np.where(m < 15, m * 200 / 3, 1000 * np.exp((np.maximum(m, 15) - 15) * np.log(6.4) / 27))


@lru_cache(maxsize=32)
def mel_filters(
    rate: float, size: int, bands: int = 80, low: float = 0.0, high: float | None = None, scale: str = "slaney"
) -> np.ndarray:
    """Triangular filters that are equally wide on the mel scale.

    Parameters
    ----------
    rate : float, Hz
        Samples per second.
    size : int
        Samples of the Fourier transform.
    bands : int, default 80
    low, high : float, Hz
        Range of the filters. By default up to ``rate / 2``.
    scale : {"slaney", "htk"}, default "slaney"
        With "slaney", filters have equal areas, as in ``librosa.filters.mel``; with "htk", equal heights of 1, as
        in ``torchaudio.functional.melscale_fbanks``.

    Returns
    -------
    (size // 2 + 1, bands) float64

    Raises
    ------
    ValueError
        If the range or the scale is not valid.

    References
    ----------
    .. [1] Slaney, Auditory Toolbox, Interval Research Corporation TR 1998-010; Young et al., The HTK Book, eq. 5.13.

    Examples
    --------
    >>> from triskele.core import data
    >>> data.audio.mel_filters(16000, 512, 40).shape
    (257, 40)
    """
    top = rate / 2 if high is None else high
    check.choice(scale, ("slaney", "htk"), "audio.mel_filters: scale")
    if not 0 <= low < top <= rate / 2:
        raise ValueError(f"audio.mel_filters: 0 <= low < high <= rate / 2 must hold, got {low}, {top} and {rate / 2}")
    edges = _to_hertz(np.linspace(_to_mel(low, scale), _to_mel(top, scale), bands + 2), scale)
    frequencies = np.linspace(0, rate / 2, size // 2 + 1)[:, None]
    rising = (frequencies - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - frequencies) / np.diff(edges)[1:]
    filters = np.maximum(0, np.minimum(rising, falling))
    found = filters * (2 / (edges[2:] - edges[:-2])) if scale == "slaney" else filters
    found.setflags(write=False)
    return found


@dataclasses.dataclass(frozen=True)
class MelSpectrogram(Transform):
    """See `mel_spectrogram`."""

    rate: float
    bands: int
    size: int
    hop: int
    low: float
    high: float | None
    scale: str

    def apply(self, x: Any) -> Any:
        spectrum = np.fft.rfft(_frames(x, self.size, self.hop, True))
        power = np.real(spectrum) ** 2 + np.imag(spectrum) ** 2
        filters = mel_filters(self.rate, self.size, self.bands, self.low, self.high, self.scale)
        return power @ filters.astype(x.dtype)


def mel_spectrogram(
    rate: float,
    bands: int = 80,
    *,
    size: int = 1024,
    hop: int | None = None,
    low: float = 0.0,
    high: float | None = None,
    scale: str = "slaney",
) -> Transform:
    """Power in bands of the mel scale: ``|stft(x)| ** 2 @ mel_filters``.

    Parameters
    ----------
    rate : float, Hz
        Samples per second.
    bands : int, default 80
    size, hop : int
        See `stft`.
    low, high : float, Hz
        Range of the filters. By default up to ``rate / 2``.
    scale : {"slaney", "htk"}, default "slaney"
        See `mel_filters`.

    Returns
    -------
    Transform
        From (samples,) floats to (frames, bands) floats of the same dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> data.audio.mel_spectrogram(16000, 40, size=512)(np.zeros(16000, np.float32)).shape
    (126, 40)
    """
    short = stft(size, hop)
    filters = (
        check.positive(rate, "audio.mel_spectrogram: rate", "Hz"),
        check.integer(bands, "audio.mel_spectrogram: bands", 1),
        check.number(low, "audio.mel_spectrogram: low", 0),
        None if high is None else check.positive(high, "audio.mel_spectrogram: high", "Hz"),
    )
    mel_filters(filters[0], short.size, filters[1], filters[2], filters[3], scale)
    return MelSpectrogram(filters[0], filters[1], short.size, short.hop, filters[2], filters[3], scale)
