"""Compressed files: what NumPy and gzip write is read; bombs and damage end in one error."""

import gzip
import io
import zipfile

import numpy as np
import pytest

from triskele.core.compressed import gunzip, read_npz
from triskele.core.errors import FileFormatError


def npz(*, compressed=False, **arrays):
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file


def zipped(*members, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file


def npy(head, data=b""):
    text = head.encode() if isinstance(head, str) else repr(head).encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_come_back_as_numpy_wrote_them(compressed):
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "f": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "b": np.array([True, False]),
        "t": np.array("text"),
        "e": np.zeros((0, 4)),
        "s": np.array(3),
        "z": np.array([1 + 2j]),
        "big": np.arange(3, dtype=">i4"),
        "r": np.array([(1, 2.5)], [("x", np.int8), ("y", float, (1,))]),
    }
    back = read_npz(npz(compressed=compressed, **arrays).getvalue(), "here")
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype and back[name].flags.writeable


@pytest.mark.parametrize("file", [
    io.BytesIO(), io.BytesIO(b"PK\5\6" + b"\0" * 17), zipped(("a.npy", b"")), zipped(("a.npy", b"text")),
    zipped(("a.npy", np.zeros(300 << 17).tobytes())),  # a bomb: 300 MiB of zeros in 300 kB
    zipped(*((f"{k}.npy", bytes(1 << 20)) for k in range(300))),  # of many parts
    zipped(("a.npy", npy({"descr": "<f8", "fortran_order": False, "shape": (2**50,)}))),
    zipped(("a.npy", npy({"descr": "<f8", "fortran_order": False, "shape": (-1,)}, bytes(8)))),
    zipped(("a.npy", npy({"descr": "|b1", "fortran_order": False, "shape": (1,)}, b"\7"))),
    zipped(("a.npy", npy({"descr": "|V0", "fortran_order": False, "shape": (2**50,)}))),
    zipped(("a.npy", npy({"descr": "|O", "fortran_order": False, "shape": (1,)}, bytes(8)))),
    zipped(("a.npy", npy("(" * 60_000))), zipped(("a.npy",
                                                  npy("__import__('os').abort()"))), zipped(("a.npy", npy("{}"))),
    zipped(("a.npy", npy({"descr": "<f8", "fortran_order": False, "shape": ()}, bytes(8))), method=zipfile.ZIP_BZIP2),
])
def test_an_archive_that_cannot_be_is_refused(file):
    with pytest.raises(FileFormatError, match="here: must be a whole archive of arrays"):
        read_npz(file.getvalue(), "here")


def test_objects_are_refused():
    with pytest.raises(FileFormatError, match="must be an array of numbers"):
        read_npz(npz(a=np.array([print], object)).getvalue(), "here")


def test_gzipped_data_come_back():
    data = np.random.default_rng(0).bytes(3 << 20)
    assert gunzip(gzip.compress(data[:100]) + gzip.compress(data), "here") == data[:100] + data


def test_no_data_are_an_empty_gzip_file():
    assert gunzip(b"", "here") == b""


@pytest.mark.parametrize("data", [
    pytest.param(b"\x1f\x8b", id="two bytes"), pytest.param(b"text", id="text"),
    pytest.param(gzip.compress(b"text")[:-5],
                 id="truncated"), pytest.param(gzip.compress(b"text") + b"more", id="trailing"),
    pytest.param(gzip.compress(b"text" * 99)[:-20] + bytes(20), id="overwritten"),
])
def test_gzipped_data_that_are_damaged_are_refused(data):
    with pytest.raises(FileFormatError, match="here: must be a whole gzip file"):
        gunzip(data, "here")


def test_a_gzip_bomb_is_refused():
    with pytest.raises(FileFormatError, match="here: must unpack to at most 268435456 bytes"):
        gunzip(gzip.compress(bytes(1 << 20)) * 300, "here")
