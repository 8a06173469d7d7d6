"""Writes librosa_reference.npz: spectrograms as librosa 0.11 computes them (run with librosa installed).

The numbers are librosa's output on random inputs made here; no data of others is involved.
"""

from pathlib import Path

import librosa
import numpy as np

rng = np.random.default_rng(0)
signal = rng.standard_normal(300)
out = {"signal": signal, "stft": librosa.stft(signal, n_fft=64, hop_length=16, pad_mode="reflect").T}
for scale, norm in (("slaney", "slaney"), ("htk", None)):
    options = {"htk": scale == "htk", "norm": norm, "n_mels": 6, "fmin": 100, "fmax": 3500}
    out[f"filters_{scale}"] = librosa.filters.mel(sr=8000, n_fft=64, dtype=np.float64, **options).T
    out[f"mel_{scale}"] = librosa.feature.melspectrogram(
        S=abs(out["stft"].T) ** 2, sr=8000, n_fft=64, dtype=np.float64, **options
    ).T
np.savez_compressed(Path(__file__).with_name("librosa_reference.npz"), **out)
