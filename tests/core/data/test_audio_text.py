"""Sound against SciPy and librosa (recorded), text against plain Python."""

from pathlib import Path

import numpy as np
import pytest
from scipy import signal

from triskele import core
from triskele.core import data

REFERENCE = np.load(Path(__file__).parents[2] / "data/audio/librosa_reference.npz")
X = REFERENCE["signal"]


@pytest.mark.parametrize("size, hop", [(64, 16), (50, 25), (128, 100)])
def test_stft_is_scipys(size, hop):
    found = data.audio.stft(size, hop, center=False)(X)
    window = signal.get_window("hann", size)
    _, _, expected = signal.stft(X, window=window, nperseg=size, noverlap=size - hop, boundary=None, padded=False)
    assert np.allclose(found, expected.T * window.sum(), atol=1e-12)


def test_spectrograms_are_librosas():
    assert np.allclose(data.audio.stft(64)(X), REFERENCE["stft"], atol=1e-12)
    for scale in ("slaney", "htk"):
        mel = data.audio.mel_spectrogram(8000, 6, size=64, low=100, high=3500, scale=scale)
        assert np.allclose(data.audio.mel_filters(8000, 64, 6, 100, 3500, scale), REFERENCE[f"filters_{scale}"])
        assert np.allclose(mel(X), REFERENCE[f"mel_{scale}"])
        assert np.allclose(core.jit(mel)(X), REFERENCE[f"mel_{scale}"])


def test_sound_in_a_pipeline():
    mel = data.audio.mel_spectrogram(8000, 6, size=64)
    sounds = np.stack([X, X[::-1]]).astype(np.float32)
    found, _ = next(iter(data.arrays(sounds, np.arange(2)).map(mel).batch(2)))
    assert found.dtype == np.float32
    assert np.allclose(found, [mel(x) for x in sounds.astype(float)], rtol=1e-3, atol=1e-3)
    with pytest.raises(data.DataError, match="sample 0: ValueError: audio.stft: a signal must be a floating array"):
        next(iter(data.arrays(np.ones((2, 300), int)).map(mel).batch(2)))
    with pytest.raises(ValueError, match="must have more than 32 samples, half the window, got 20"):
        mel(X[:20])
    with pytest.raises(ValueError, match="0 <= low < high <= rate / 2 must hold"):
        data.audio.mel_spectrogram(8000, high=5000.0)


def test_vocabularies():
    text = "to be or not to be"
    letters = data.text.vocabulary(text)
    assert letters.tokens == tuple(sorted(set(text)))
    assert letters.decode(letters.encode(text)) == text
    with pytest.raises(data.DataError, match="every character must be in the vocabulary, got 'x' at character 1"):
        letters.encode("ox")
    words = data.text.vocabulary([text, "be, or!"], words=True, size=4, unknown="<other>")
    assert words.tokens == ("<other>", "be", "or", "to")
    assert words.encode("be to, me").tolist() == [1, 3, 0, 0]
    assert words.decode(words.encode("or to")) == "or to"
    with pytest.raises(data.DataError, match="numbers must be from 0 to 3, got 4 to 4"):
        words.decode([4])
    with pytest.raises(ValueError, match="at least one token"):
        data.text.vocabulary("")


def test_windows_cover_the_tokens():
    tokens = np.arange(30)
    source = data.text.windows(tokens, 7)
    assert [x.tolist() for x, _ in source] == [list(range(a, a + 7)) for a in (0, 7, 14, 21)]
    assert all(np.array_equal(y, x + 1) for x, y in source)
    every = data.text.windows(tokens, 7, stride=1)
    assert len(every) == 23
    assert np.array_equal(list(every)[-1][1], tokens[-7:])
    with pytest.raises(ValueError, match="at least 31 integers"):
        data.text.windows(tokens, 30)
    shuffled = every.shuffle(0).batch(4)
    found = shuffled.arrays_in_memory()
    batch = core.jit(found.make)(found.arrays, found.order(0)[:4], np.int64(0))
    assert all(np.array_equal(a, b) for a, b in zip(batch, next(iter(shuffled))))
