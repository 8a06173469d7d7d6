"""Files of JPEG to batches: 256 drawn pictures of 640 x 480, resized to 448, cropped to 416, flipped, normalized."""

import tempfile
import time
from pathlib import Path

import numpy as np

GOALS = {"256 files ms": "2x torchvision, 2.3x Pillow"}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
COUNT, BATCH, LARGE, SIZE = 256, 32, 448, 416


def write(folder, seed):
    """Pictures with edges and smooth parts, of about 60 kB each."""
    from PIL import Image, ImageDraw, ImageFilter

    rng = np.random.default_rng(seed)
    for k in range(COUNT):
        image = Image.fromarray(rng.integers(0, 256, (24, 32, 3), np.uint8)).resize((640, 480))
        pen = ImageDraw.Draw(image)
        for _ in range(40):
            x, y, w, h = (int(n) for n in rng.integers([0, 0, 10, 10], [600, 440, 160, 120]))
            pen.ellipse((x, y, x + w, y + h), fill=tuple(rng.integers(0, 256, 3).tolist()))
        place = folder / str(k % 4)
        place.mkdir(exist_ok=True)
        image.filter(ImageFilter.GaussianBlur(0.7)).save(place / f"{k:03}.jpg", quality=90)


def best(run):
    """Milliseconds of the fastest of four runs after one."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return 1e3 * min(times[1:])


def triskele(seed, options):
    """Two threads."""
    from triskele.core import data

    augment = data.image.resize(LARGE) | data.image.crop(SIZE) | data.image.flip(0.5) | data.image.normalize(MEAN, STD)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), seed)
        files = data.folders(folder)
        plain = files.prefetch(workers=options.threads)
        source = files.shuffle(seed=0).map(augment).batch(BATCH).prefetch(workers=options.threads)
        decode = best(lambda: [None for _ in plain.iterate(epoch=0)])
        return {"256 files ms": best(lambda: [None for _ in source.iterate(epoch=0)]), "of it decoding ms": decode}


def torchvision(seed, options):
    """DataLoader with as many worker processes, transforms v2."""
    import torch
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    augment = v2.Compose(
        [
            v2.PILToTensor(),
            v2.Resize((LARGE, LARGE), antialias=True),
            v2.RandomCrop(SIZE),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), seed)
        loader = torch.utils.data.DataLoader(
            ImageFolder(folder, augment), BATCH, shuffle=True, persistent_workers=True, num_workers=options.threads
        )
        return {"256 files ms": best(lambda: [None for _ in loader])}


def pillow(seed, _options):
    """A loop of Pillow and NumPy."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), seed)
        paths, rng = sorted(Path(folder).glob("*/*.jpg")), np.random.default_rng(seed)

        def load(path):
            pixels = np.asarray(Image.open(path).convert("RGB").resize((LARGE, LARGE), Image.Resampling.BILINEAR))
            i, j = rng.integers(0, LARGE - SIZE + 1, 2)
            pixels = pixels[i : i + SIZE, j : j + SIZE]
            pixels = pixels[:, ::-1] if rng.random() < 0.5 else pixels
            return (pixels.astype(np.float32) / 255 - np.float32(MEAN)) / np.float32(STD)

        def run():
            order = rng.permutation(COUNT)
            for k in range(0, COUNT, BATCH):
                np.stack([load(paths[i]) for i in order[k : k + BATCH]])

        return {"256 files ms": best(run)}
