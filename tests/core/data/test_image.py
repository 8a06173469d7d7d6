"""Image transforms against Pillow, SciPy, colorsys and twins in plain NumPy; compiled kernels against single calls."""

import colorsys

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from triskele import core
from triskele.core import data, random
from triskele.core.data.image import inverse, sampled
from triskele.core.data.image_color import turned

RNG = np.random.default_rng(0)
IMAGE = RNG.integers(0, 256, (24, 20, 3), dtype=np.uint8)
FLOATS = RNG.random((24, 20, 3)).astype(np.float32)
KEYS = [random.key(k) for k in range(30)]


def pillow(image, size):
    """Pillow's result for rows first; Pillow 13 takes columns first where the height shrinks more than the width."""
    rows = Image.fromarray(image).resize((size[1], image.shape[0]), Image.Resampling.BILINEAR)
    return np.asarray(rows.resize(size[::-1], Image.Resampling.BILINEAR))


@pytest.mark.parametrize("size", [(16, 16), (41, 33), (24, 7), (1, 1), (3, 50)])
def test_resize_is_pillows(size):
    resize = data.image.resize(size)
    expected = pillow(IMAGE, size)
    whole = np.asarray(Image.fromarray(IMAGE).resize(size[::-1], Image.Resampling.BILINEAR))
    assert np.abs(whole.astype(int) - expected).max() <= 1
    assert np.array_equal(resize(IMAGE), expected)
    assert np.array_equal(core.jit(resize)(IMAGE), expected)
    planes = [pillow(p, size) for p in np.moveaxis(FLOATS, -1, 0).copy()]
    assert np.allclose(resize(FLOATS), np.stack(planes, axis=-1), atol=1e-6)
    assert np.array_equal(resize(IMAGE[:, :, 0]), expected[:, :, 0])


def test_flip_is_a_mirror_with_its_probability():
    flipped = []
    for key in KEYS:
        found = data.image.flip(0.3)(IMAGE, key=key)
        flipped.append(np.array_equal(found, IMAGE[:, ::-1]))
        assert flipped[-1] or np.array_equal(found, IMAGE)
    assert 2 <= sum(flipped) <= 18  # 9 expected
    assert np.array_equal(data.image.flip(1.0, axis=0)(IMAGE, key=KEYS[0]), IMAGE[::-1])


def test_crops_are_windows_of_the_padded_image():
    padded = np.pad(IMAGE, ((3, 3), (3, 3), (0, 0)))
    windows = {padded[i : i + 16, j : j + 18].tobytes() for i in range(15) for j in range(9)}
    found = {data.image.crop((16, 18), pad=3)(IMAGE, key=key).tobytes() for key in KEYS}
    assert found <= windows
    assert len(found) > 15
    assert np.array_equal(data.image.center_crop(10)(IMAGE), IMAGE[7:17, 5:15])
    with pytest.raises(ValueError, match=r"size must be at most that of the image, got \(25, 25\)"):
        data.image.crop(25)(IMAGE, key=KEYS[0])


def test_cutout_covers_a_square():
    for key in KEYS:
        covered = data.image.cutout(7)(FLOATS, key=key).sum(axis=-1) == 0
        rows, columns = np.flatnonzero(covered.any(axis=1)), np.flatnonzero(covered.any(axis=0))
        assert 3 <= len(rows) <= 7
        assert 3 <= len(columns) <= 7
        assert covered.sum() == len(rows) * len(columns)
        assert len(rows) == 7 or rows[0] == 0 or rows[-1] == 23


def test_affine_is_interpolation_at_the_inverse_positions():
    angle, zoom, down, right, shear = 0.4, 1.2, 1.5, -2.25, 0.1
    rows, columns = inverse(24, 20, *np.float32([angle, shear, zoom, down, right]))
    # rotation and scale of the sheared image about its center: [x, y] -> zoom * R (S [x, y]) + shift
    turn = zoom * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrix = turn @ np.array([[1, np.tan(shear)], [0, 1]])
    there = np.einsum("ij,jhw->ihw", matrix, np.stack([columns - 9.5, rows - 11.5]))
    y, x = np.mgrid[:24, :20]
    assert np.allclose(there, np.stack([x - 9.5 - right, y - 11.5 - down]), atol=1e-4)
    expected = np.stack(
        [
            ndimage.map_coordinates(p, [rows, columns], order=1, mode="grid-constant")
            for p in np.moveaxis(FLOATS, -1, 0)
        ],
        axis=-1,
    )
    assert np.allclose(sampled(FLOATS, rows, columns), expected, atol=1e-5)
    assert np.array_equal(data.image.affine()(IMAGE, key=KEYS[0]), IMAGE)


def test_color_jitter_keeps_to_its_definitions():
    expected = [
        [colorsys.hsv_to_rgb((h + 0.2) % 1, s, v) for h, s, v in (colorsys.rgb_to_hsv(*p) for p in row)]
        for row in FLOATS.tolist()
    ]
    assert np.allclose(turned(FLOATS, np.float32(0.2)), expected, atol=1e-5)
    for key in KEYS[:5]:
        b, c, s, _ = random.uniform(key, 4, np.float32, low=-1.0) * np.float32(0.5) + 1
        gray = np.array([0.2989, 0.587, 0.114])
        y = np.clip(FLOATS * b, 0, 1)
        y = np.clip((y @ gray).mean() + (y - (y @ gray).mean()) * c, 0, 1)
        y = np.clip((y @ gray)[..., None] + (y - (y @ gray)[..., None]) * s, 0, 1)
        assert np.allclose(data.image.color_jitter(0.5, 0.5, 0.5)(FLOATS, key=key), y, atol=1e-5)
    assert np.array_equal(data.image.color_jitter()(IMAGE, key=KEYS[0]), IMAGE)


def test_normalize():
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
    found = data.image.normalize(mean, std)(IMAGE)
    assert found.dtype == np.float32
    assert np.allclose(found, (IMAGE / 255 - mean) / std, atol=1e-5)
    assert np.allclose(data.image.normalize(127.0, 2.0)(IMAGE * 1.0), (IMAGE - 127.0) / 2)
    with pytest.raises(ValueError, match=r"mean and std must be in units of the range of uint8.*divide them by 255"):
        data.image.normalize(127.0, 60.0)(IMAGE)
    with pytest.raises(ValueError, match="an image must have 2 channels"):
        data.image.normalize([0.1, 0.2], 0.5)(IMAGE)


def test_mixup_mixes_neighbors_of_the_batch():
    source = data.arrays(np.stack([FLOATS * k for k in range(4)]), np.arange(4)).batch(4)
    images, targets = next(iter(source.map(data.image.mixup(1.0, classes=4))))
    share = targets[0, 0]
    assert 0 < share < 1
    assert np.allclose(targets, share * np.eye(4) + (1 - share) * np.roll(np.eye(4), 1, axis=0))
    assert np.allclose(images[2], (2 * share + (1 - share)) * FLOATS, atol=1e-5)
    with pytest.raises(data.DataError, match="labels need the number of classes"):
        next(iter(source.map(data.image.mixup(1.0))))


def test_images_and_masks_are_transformed_together():
    masks = np.repeat(IMAGE[None, :, :, 0], 5, axis=0)
    source = (
        data.arrays(np.repeat(IMAGE[None], 5, axis=0), masks)
        .map(data.image.flip(0.5) | data.image.crop(16) | data.image.affine(20), on=(0, 1))
        .batch(5)
    )
    images, found = next(iter(source))
    assert np.array_equal(images[..., 0], found)
    assert len({m.tobytes() for m in found}) == 5


@pytest.mark.parametrize(
    "images", [np.repeat(IMAGE[None], 6, axis=0), np.repeat(FLOATS[None], 6, axis=0)], ids=["uint8", "float32"]
)
def test_one_fused_kernel_equals_single_calls(images):
    """All transforms in one kernel, for a batch; and each called by itself for one image."""
    chain = (
        data.image.resize(20)
        | data.image.affine(15, 0.1, (0.9, 1.1))
        | data.image.flip(0.5)
        | data.image.color_jitter(0.3, 0.3, 0.3, 0.1)
        | data.image.crop(16, pad=2)
        | data.image.cutout(4)
        | data.image.normalize(0.5, 0.25)
    )
    found = next(iter(data.arrays(images).map(chain, seed=5).batch(6)))
    for k, image in enumerate(found):
        expected = chain(images[k], key=data.sample_key(5, 0, k))
        wrong = ~np.isclose(image, expected, atol=1e-4)  # uint8 may round the other way in the last bit
        assert wrong.mean() < 0.01
        assert np.abs(image - expected).max() < 0.04
