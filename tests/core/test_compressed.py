"""Compressed files: what gzip writes is read; bombs and damage end in one error."""

import gzip

import numpy as np
import pytest

from triskele.core.disk.compressed import gunzip
from triskele.core.errors import FileFormatError


def test_gzipped_data_come_back():
    data = np.random.default_rng(0).bytes(3 << 20)
    assert gunzip(gzip.compress(data[:100]) + gzip.compress(data), "here") == data[:100] + data


def test_no_data_are_an_empty_gzip_file():
    assert gunzip(b"", "here") == b""


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x1f\x8b", id="two bytes"),
        pytest.param(b"text", id="text"),
        pytest.param(gzip.compress(b"text")[:-5], id="truncated"),
        pytest.param(gzip.compress(b"text") + b"more", id="trailing"),
        pytest.param(gzip.compress(b"text" * 99)[:-20] + bytes(20), id="overwritten"),
    ],
)
def test_gzipped_data_that_are_damaged_are_refused(data):
    with pytest.raises(FileFormatError, match="here: must be a whole gzip file"):
        gunzip(data, "here")


def test_a_gzip_bomb_is_refused():
    with pytest.raises(FileFormatError, match="here: must unpack to at most 268435456 bytes"):
        gunzip(gzip.compress(bytes(1 << 20)) * 300, "here")
