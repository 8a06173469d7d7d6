"""Tables from text: types of columns, digits, missing values and names, with and without pyarrow."""

import importlib.util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele.core import data
from triskele.core.data import sources


@pytest.fixture(params=["with pyarrow", "without pyarrow"])
def reader(request, monkeypatch):
    if request.param == "with pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setattr(sources, "_arrow_texts", lambda *_: None)
    return request.param


def read(path, text, **options):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return next(iter(data.csv(path, **options).batch(10_000)))


WHOLE = 2**63 - 1
CASES = {
    "whole": ("a\n1\n-2\n", np.array([1, -2])),
    "signed": ("a\n+1\n-0\n", np.array([1, 0])),
    "spaces": ("a,b\n 1,x\n 2,y\n", np.array([1, 2])),
    "64 bits": (f"a\n{WHOLE}\n{-WHOLE - 1}\n", np.array([WHOLE, -WHOLE - 1])),
    "unsigned": (f"a\n{2**64 - 1}\n1\n", np.array([2**64 - 1, 1], np.uint64)),
    "beyond 64 bits": (f"a\n{2**64}\n1\n", np.array([str(2**64), "1"])),
    "beyond both": (f"a\n{2**64 - 1}\n-1\n", np.array([str(2**64 - 1), "-1"])),
    "missing": ("a,b\n1,x\n,y\n", np.array([1, np.nan])),
    "missing, exact": (f"a,b\n{2**53},x\n,y\n", np.array([2.0**53, np.nan])),
    "missing, digits": (f"a,b\n{2**53 + 1},x\n,y\n", np.array([str(2**53 + 1), ""])),
    "all missing": ("a,b\n,x\nNA,y\n", np.array([np.nan, np.nan])),
    "NA": ("a\nNA\n1.5\n", np.array([np.nan, 1.5])),
    "NA in text": ("a\nNA\nx\n", np.array(["NA", "x"])),
    "floats": ("a\n1e3\n-.5\n5.\n1E-400\n", np.array([1000, -0.5, 5, 0])),
    "large floats": ("a\n1e300\n0.5\n1e400\n", np.array([1e300, 0.5, np.inf])),
    "infinities": ("a\ninf\n-Infinity\nnan\n", np.array([np.inf, -np.inf, np.nan])),
    "truth": ("a\nTrue\nfalse\n", np.array([True, False])),
    "truth and numbers": ("a\nTrue\n2\n", np.array(["True", "2"])),
    "underscores": ("a\n1_000\n2\n", np.array(["1_000", "2"])),
    "underscores in floats": ("a\n1_0.5\n2\n", np.array(["1_0.5", "2"])),
    "hexadecimal": ("a\n0x10\n2\n", np.array(["0x10", "2"])),
    "digits of Unicode": ("a\n\u0661\n2\n", np.array(["\u0661", "2"])),
    "thousands": ('a\n"1,000"\n2\n', np.array(["1,000", "2"])),
    "dates": ("a\n2020-01-02\n2020-02-03\n", np.array(["2020-01-02", "2020-02-03"])),
    "quoted": ('a,b\n"x, ""y""\nz",1\nw,2\n', np.array(['x, "y"\nz', "w"])),
    "empty lines": ("a,b\n1,2\n\n3,4\n", np.array([1, 3])),
    "carriage returns": ("a,b\r\n1,2\r\n3,4", np.array([1, 3])),
    "byte order mark": (b"\xef\xbb\xbfa\n1\n", np.array([1])),
    "late text": ("a\n" + "1\n" * 3000 + "x\n", np.array(["1"] * 3000 + ["x"])),
}


@pytest.mark.parametrize("case", CASES)
def test_types_of_columns(reader, case, tmp_path):
    text, expected = CASES[case]
    found = read(tmp_path / "t.csv", text)["a"]
    assert found.dtype.kind == expected.dtype.kind
    np.testing.assert_array_equal(found, expected)


def test_types_that_are_given(reader, tmp_path):
    text = "a,b\n1,0\nNA,1\n"
    found = read(tmp_path / "t.csv", text, types={"a": np.float32, "b": bool})
    assert found["a"].dtype == np.float32 and np.isnan(found["a"][1]) and found["b"].tolist() == [False, True]
    for kind, value in ((np.int64, "NA"), (bool, "NA")):
        with pytest.raises(data.DataError, match=f"column 'a' must be .*, got '{value}' in row 2"):
            read(tmp_path / "t.csv", text, types={"a": kind})
    with pytest.raises(data.DataError, match="got '1_0' in row 1"):
        read(tmp_path / "t.csv", "a\n1_0\n", types={"a": np.float64})


def test_columns_keep_their_order_and_their_names(reader, tmp_path):
    path = tmp_path / "t.csv"
    assert list(read(path, "b,a,c\n1,2,3\n")) == ["b", "a", "c"]
    assert list(read(path, "b,a,c\n1,2,3\n", columns=["c", "a"])) == ["c", "a"]
    batches = data.csv(path).cache().shuffle(0).batch(1)
    assert list(next(iter(data.csv(path)))) == list(next(iter(batches))) == ["b", "a", "c"]
    with pytest.raises(data.DataError, match="must have names of their own, got 2 columns 'a'"):
        read(path, "a,b,a\n1,2,3\n")
    assert read(path, "a,b,a\n1,2,3\n", columns=["b"])["b"] == [2]


def test_rows_of_another_length_are_named(reader, tmp_path):
    for text, words in (("a,b\n1,2\n3\n", "line 3 must have 2 fields, got 1"), ("a,b\n", "at least one row")):
        with pytest.raises(data.DataError, match=words):
            read(tmp_path / "t.csv", text)


FIELDS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(repr),
    st.text("0123456789.eE+-_xXnaNA ", max_size=6),
    st.integers(-9, 9).map("{:+d}".format),
    st.sampled_from(["", "NA", "inf", "nan", "NULL", "True", "false", "x"]),
)


@pytest.mark.skipif(not importlib.util.find_spec("pyarrow"), reason="compares with pyarrow")
@given(st.lists(FIELDS, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_readers_agree(tmp_path_factory, fields):
    import pyarrow as pa

    from triskele.core.data.columns import as_column

    found = as_column(pa.chunked_array([fields]), None, "t")
    expected = as_column(fields, None, "t")
    assert found.dtype.kind == expected.dtype.kind
    np.testing.assert_array_equal(found, expected)


def test_whole_numbers_of_parquet_keep_their_digits(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    columns = [pa.array([2**53 + 1, None]), pa.array([1, None]), pa.array([1, 2])]
    parquet.write_table(pa.table(columns, names=["b", "a", "a"]), path)
    found = next(iter(data.parquet(path, ["b"]).batch(2)))["b"]
    assert found.tolist() == [str(2**53 + 1), ""]
    with pytest.raises(data.DataError, match="must have names of their own, got 2 columns 'a'"):
        data.parquet(path)
    parquet.write_table(pa.table(columns[:2], names=["b", "a"]), path)
    row = next(iter(data.parquet(path)))
    assert list(row) == ["b", "a"] and row["a"] == 1.0
