"""Sources of files: folders of images and tar shards, decoded when they are read."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import io
import json
import os
import tarfile
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import check
from ..errors import DataError
from ..imports.optional import need
from .block import Block
from .pipeline import Source

__all__ = ["decode", "folders", "tar"]

_IMAGES = {"jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm", "pgm"}
_CHANNELS = {"RGB": 3, "L": 1, "RGBA": 4}


def decode(file: bytes | str | os.PathLike[str], color: str = "RGB") -> np.ndarray:
    """Decode an image file.

    Parameters
    ----------
    file : bytes or path-like
        The content of the file, or its path.
    color : {"RGB", "L", "RGBA"}, default "RGB"
        Colors, gray levels, or colors with opacity.

    Returns
    -------
    (height, width, channels) uint8
        JPEG files are decoded by simplejpeg if it is installed, everything else by Pillow.

    Raises
    ------
    DataError
        If the file is damaged or not an image.

    Examples
    --------
    >>> import io
    >>> from PIL import Image
    >>> from triskele.core import data
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (4, 2), "red").save(file, "png")
    >>> data.decode(file.getvalue()).shape
    (2, 4, 3)
    """
    check.choice(color, _CHANNELS, "decode: color")
    name = "" if isinstance(file, bytes) else f" {os.fsdecode(file)!r}"
    content = file if isinstance(file, bytes) else Path(file).read_bytes()
    try:
        if content[:2] == b"\xff\xd8" and color != "RGBA" and (jpeg := _simplejpeg()) is not None:
            return jpeg.decode_jpeg(content, colorspace={"RGB": "RGB", "L": "GRAY"}[color])
        with need("PIL.Image", "decode", "data").open(io.BytesIO(content)) as image:
            found = np.asarray(image.convert(color))
    except ImportError:
        raise
    except Exception as error:  # each decoder has errors of its own
        raise DataError(f"decode: the image{name} is damaged or not an image: {error}") from error
    return found if found.ndim == 3 else found[:, :, None]


@cache
def _simplejpeg():
    return importlib.import_module("simplejpeg") if importlib.util.find_spec("simplejpeg") else None


class _Files(Source):
    """Indexed sources whose samples are read one by one by `read(index)`."""

    def read(self, index: int) -> Any:
        raise NotImplementedError

    def rows(self, positions: np.ndarray, epoch: int) -> Block:
        return Block(
            [self._sample(int(k)) for k in positions], positions, np.full(len(positions), epoch, np.int64), False
        )

    def _sample(self, index):
        try:
            return self.read(index)
        except (DataError, OSError) as error:
            raise DataError(
                f"{type(self).__name__.lower()}: cannot read sample {index} ({self.describe(index)}): {error}"
            ) from error


# -- folders -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Folders(_Files):
    """See `folders`."""

    path: str
    color: str

    @cached_property
    def _listed(self):
        root = Path(self.path)
        classes = sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
        found = []
        for label, name in enumerate(classes):
            images = sorted(p for p in (root / name).rglob("*") if p.suffix[1:].lower() in _IMAGES)
            if not images:
                raise DataError(f"folders: each folder of a class must have images, got none in {str(root / name)!r}")
            found += [(str(p), label) for p in images]
        if not found:
            raise DataError(f"folders: {self.path!r} must have one folder of images for each class, got no folders")
        return tuple(classes), found

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, whose numbers are the labels."""
        return self._listed[0]

    def count(self) -> int:
        return len(self._listed[1])

    def read(self, index: int) -> tuple[np.ndarray, np.int64]:
        path, label = self._listed[1][index]
        return decode(path, self.color), np.int64(label)

    def describe(self, index: int) -> str:
        return self._listed[1][index][0]


def folders(path: str | os.PathLike[str], color: str = "RGB") -> Source:
    """Make a source of image files in one folder for each class; samples are (image, label).

    Classes are numbered in the order of the folders' names, which ``source.classes`` lists; images are read in the
    order of their paths.

    Parameters
    ----------
    path : path-like
        The folder of the classes' folders.
    color : {"RGB", "L", "RGBA"}, default "RGB"
        See `decode`.

    Returns
    -------
    Source

    Raises
    ------
    FileNotFoundError
    DataError
        If a class has no images; while iterating, if an image is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from triskele.core import data
    >>> root = Path(tempfile.mkdtemp())
    >>> for name in ("cat", "dog"):
    ...     (root / name).mkdir()
    ...     Image.new("RGB", (8, 6)).save(root / name / "0.png")
    >>> source = data.folders(root)
    >>> source.classes, [(image.shape, int(label)) for image, label in source]
    (('cat', 'dog'), [((6, 8, 3), 0), ((6, 8, 3), 1)])
    """
    source = Folders(os.fsdecode(path), color)
    source.count()
    return source


# -- tar shards --------------------------------------------------------------------------------------------------------


class _Member(NamedTuple):
    shard: str
    key: str
    parts: dict[str, tuple[int, int]]  # place and size of each file of the sample, by extension


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Tar(_Files):
    """See `tar`."""

    paths: tuple[str, ...]
    color: str

    @cached_property
    def _members(self):
        found = [m for path in self.paths for m in _members(path)]
        if not found:
            raise DataError(f"tar: the shards must have at least one sample, got none in {', '.join(self.paths)}")
        for m in found:
            if m.parts.keys() != found[0].parts.keys():
                raise DataError(
                    f"tar: all samples must have the same files, got {', '.join(sorted(m.parts))} at "
                    f"{m.key!r} of {m.shard!r} and {', '.join(sorted(found[0].parts))} at {found[0].key!r}"
                )
        return found

    def count(self) -> int:
        return len(self._members)

    def read(self, index: int) -> dict[str, Any]:
        member, sample = self._members[index], {}
        with open(member.shard, "rb") as file:
            for kind, (place, size) in member.parts.items():
                file.seek(place)
                sample[kind] = _value(kind, file.read(size), self.color)
        return sample

    def describe(self, index: int) -> str:
        member = self._members[index]
        return f"{member.key} of {member.shard}"


def _members(path):
    """Samples of one shard: consecutive files that share the name up to its first dot."""
    found: list[_Member] = []
    try:
        with tarfile.open(path, "r:") as archive:
            for info in archive:
                if not info.isfile():
                    continue
                folder, name = os.path.split(info.name)
                stem, _, kind = name.partition(".")
                key = f"{folder}/{stem}" if folder else stem
                if not found or found[-1].key != key:
                    found.append(_Member(path, key, {}))
                found[-1].parts[kind.lower()] = (info.offset_data, info.size)
            if archive.offset + 2 * tarfile.BLOCKSIZE > os.path.getsize(path) + tarfile.BLOCKSIZE:
                raise DataError(f"tar: the shard {path!r} is cut off" + (f" after {found[-1].key!r}" if found else ""))
    except tarfile.ReadError as error:
        raise DataError(f"tar: the shard {path!r} is cut off or not an uncompressed tar archive: {error}") from error
    return found


def _number(content: bytes) -> np.int64:
    return np.int64(content.strip())


_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "cls": _number,
    "txt": bytes.decode,
    "json": json.loads,
    "npy": lambda content: np.load(io.BytesIO(content)),
}


def _value(kind, content, color):
    last = kind.rpartition(".")[2]
    try:
        if last in _IMAGES:
            return decode(content, color)
        return _DECODERS[last](content) if last in _DECODERS else content
    except (ValueError, EOFError) as error:
        raise DataError(f"the file .{kind} is damaged: {error}") from error


def tar(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], color: str = "RGB") -> Source:
    """Make a source of uncompressed tar archives (shards) as the webdataset library writes them.

    Files whose names agree up to the first dot make one sample: a dictionary by the rest of the name. Images are
    decoded, ``cls`` are integers, ``txt`` text, ``json`` objects, ``npy`` arrays, and everything else is bytes. The
    archives are indexed once, so that all samples can be shuffled.

    Parameters
    ----------
    paths : path-like, or sequence of these
    color : {"RGB", "L", "RGBA"}, default "RGB"
        See `decode`.

    Returns
    -------
    Source

    Raises
    ------
    FileNotFoundError
    DataError
        If a shard is cut off, or samples do not have the same files; while iterating, if a file is damaged.

    Examples
    --------
    >>> import io, os, tarfile, tempfile
    >>> from triskele.core import data
    >>> path = os.path.join(tempfile.mkdtemp(), "shard.tar")
    >>> with tarfile.open(path, "w") as archive:
    ...     for name, content in (("0.txt", b"four"), ("0.cls", b"4")):
    ...         info = tarfile.TarInfo(name)
    ...         info.size = len(content)
    ...         archive.addfile(info, io.BytesIO(content))
    >>> list(data.tar(path))
    [{'txt': 'four', 'cls': np.int64(4)}]
    """
    several = paths if isinstance(paths, (list, tuple)) else [paths]
    source = Tar(tuple(os.fsdecode(p) for p in several), color)
    source.count()
    return source
