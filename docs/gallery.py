"""The gallery: a page of thumbnails, and a page for each example with its description, picture and source.

`python docs/gallery.py [NAME...]` runs examples at full length, all of them by default, and stores their pictures.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pages" / "images" / "gallery"
WIDTH = 480  # pixels


def examples():
    """Return the paths of all examples by folder: one for each package, and `hybrid` for several at once."""
    return {
        name: sorted((ROOT / "examples" / name).glob("*.py"))
        for name in ("core", "sponge", "quantum", "reinforce", "hybrid")
    }


def draw(example, seconds=None):
    """Run an example in an empty folder and store its picture as a small WebP file."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, example, "--output", "picture.png"], cwd=folder, check=True, timeout=seconds)
        picture = Image.open(Path(folder, "picture.png")).convert("RGB")
    PICTURES.mkdir(exist_ok=True)
    height = round(WIDTH * picture.height / picture.width)
    picture.resize((WIDTH, height), Image.Resampling.LANCZOS).save(PICTURES / f"{example.stem}.webp", quality=80)


def page(example, folder):
    """Return the page of an example: its docstring with commands as code, the picture, and the source."""
    text = re.sub(r"(?<=\n\n)(?=    \S)", "::\n\n", ast.get_docstring(ast.parse(example.read_text())))
    title, _, text = text.partition("\n")
    title, name = title.rstrip("."), example.relative_to(ROOT)
    source = os.path.relpath(example, folder / "gallery" / name.parts[1])
    picture = f"\n.. image:: /images/gallery/{example.stem}.webp\n   :alt: {title}\n" if drawn(example) else ""
    return (
        f"{title}\n{'=' * len(title)}\n{text}\n{picture}\n:download:`{name} <{source}>`\n\n"
        f".. literalinclude:: {source}\n   :language: python\n"
    )


def drawn(example):
    return (PICTURES / f"{example.stem}.webp").exists()


def pages(folder):
    """Return the pages of the gallery by their paths below a folder."""
    found, index = {}, ["Gallery", "=======", "", "Complete scripts with their descriptions and results."]
    for package, paths in examples().items():
        index += ["", package, "-" * len(package), ""]
        index += [".. grid:: 1 2 3 3", "   :gutter: 3", "   :class-container: gallery", ""]
        for path in paths:
            name = f"{package}/{path.stem}"
            found[f"gallery/{name}.rst"] = text = page(path, folder)
            card = [f".. grid-item-card:: {text.partition(chr(10))[0]}", f"   :link: {name}", "   :link-type: doc"]
            card += [f"   :img-top: /images/gallery/{path.stem}.webp"] if drawn(path) else []
            index += [*(f"   {line}" for line in card), ""]
        index += ["", ".. toctree::", "   :hidden:", "", *(f"   {path.stem} <{package}/{path.stem}>" for path in paths)]
    return found | {"gallery/index.rst": "\n".join(index)}


if __name__ == "__main__":
    for path in [path for paths in examples().values() for path in paths]:
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            draw(path)
