"""Image files to batches: decoded, resized, augmented and normalized by one pipeline, stopped and resumed.

The images are drawn here: circles and squares of several sizes in two folders. With a folder of your own, give its
path; it must have one folder for each class. Decoding and compiled transforms run in two threads.

    python examples/core/image_pipeline.py [--images FOLDER] [--size 96] [--output image_pipeline.png]

Expected: the epoch that is stopped and resumed has the same batches as the one that runs through. The picture shows the
first batch.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from triskele.core import data

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet


def draw(folder, count=24):
    """Write images of circles and squares, each in a folder of its own."""
    rng = np.random.default_rng(0)
    for name in ("circle", "square"):
        (folder / name).mkdir(parents=True)
        for k in range(count):
            width, height = (int(n) for n in rng.integers(100, 200, 2))
            image = Image.new("RGB", (width, height), tuple(rng.integers(0, 100, 3).tolist()))
            x, y, r = (int(n) for n in (*rng.integers(20, 80, 2), rng.integers(10, 40)))
            shape = ImageDraw.Draw(image).ellipse if name == "circle" else ImageDraw.Draw(image).rectangle
            shape((x, y, x + r, y + r), fill=tuple(rng.integers(150, 256, 3).tolist()))
            image.save(folder / name / f"{k}.jpg")


def show(batch, output):
    """Write a batch of normalized images as a picture of four columns."""
    pixels = np.clip((batch * STD + MEAN) * 255, 0, 255).astype(np.uint8)[: len(batch) // 4 * 4]
    rows, size = len(pixels) // 4, pixels.shape[1]
    grid = pixels.reshape(rows, 4, size, size, 3).swapaxes(1, 2)
    Image.fromarray(grid.reshape(rows * size, 4 * size, 3)).save(output)


def main(images, size, output):
    with tempfile.TemporaryDirectory() as folder:
        if images is None:
            images = Path(folder) / "drawn"
            draw(images)
        files = data.folders(images)
        augment = (
            data.image.resize(size + 8)
            | data.image.crop(size)
            | data.image.flip(0.5)
            | data.image.color_jitter(brightness=0.2, contrast=0.2)
            | data.image.normalize(MEAN, STD)
        )
        source = files.shuffle(seed=0).map(augment).batch(16).prefetch(workers=2)
        print(f"{len(files)} images of {', '.join(files.classes)}: {len(source)} batches")

        whole = [batch for batch, _ in source.iterate(epoch=1)]
        iterator = source.iterate(epoch=1)
        first = [next(iterator)[0]]
        state = iterator.state()  # core.save(path, state) writes it
        iterator.close()
        rest = [batch for batch, _ in source.iterate(epoch=1, state=state)]
        same = all(np.array_equal(a, b) for a, b in zip(whole, first + rest, strict=True))
        print(f"batches of {whole[0].shape} {whole[0].dtype}; resumed after the first one: same {same}")
        show(whole[0], output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, help="folder of one folder of images for each class")
    parser.add_argument("--size", type=int, default=96, help="height and width of the batches' images")
    parser.add_argument("--output", type=Path, default=Path("image_pipeline.png"), help="picture of the first batch")
    options = parser.parse_args()
    main(options.images, options.size, options.output)
