"""XTC frames: byte for byte those of MDTraj, read back bit for bit, and refused by frame when damaged."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from triskele import sponge
from triskele.sponge.errors import FileFormatError
from triskele.sponge.xtc_codec import decode_frame, encode_frame

BOX = np.array([[6.0, 0, 0], [1.0, 6.0, 0], [0.5, -1.0, 6.0]])


def water(n=600):
    rng = np.random.default_rng(0)
    return np.repeat(rng.uniform(0, 6, (n, 3)), 3, axis=0) + rng.normal(0, 0.06, (3 * n, 3))


def inputs():
    rng = np.random.default_rng(1)
    yield "water", water()
    yield "negative", -water()
    yield "protein", sponge.read_pdb(sponge.example_files("chignolin")[0]).positions
    yield "peptide in water", sponge.load(*sponge.example_files("alanine-dipeptide-water")).positions
    yield "lattice", np.stack(np.meshgrid(*[0.1 * np.arange(8)] * 3), axis=-1).reshape(-1, 3)
    yield "one place", np.ones((20, 3))
    for n in (1, 9, 10, 11, 500):
        for scale in (1e-3, 0.1, 3.0, 100.0, 1000.0):
            yield f"random {n} {scale}", rng.normal(0, scale, (n, 3))
            yield f"chain {n} {scale}", np.cumsum(rng.normal(0, 0.1 * scale, (n, 3)), axis=0)


INPUTS = dict(inputs())


def of_mdtraj(path, x, step=7, time=1.5):
    """The bytes of a frame that MDTraj writes, and the positions that it reads."""
    formats = pytest.importorskip("mdtraj").formats
    with formats.XTCTrajectoryFile(str(path), "w") as file:
        file.write(
            x[None].astype(np.float32),
            time=np.array([time], np.float32),
            step=np.array([step], np.int32),
            box=BOX[None].astype(np.float32),
        )
    with formats.XTCTrajectoryFile(str(path)) as file:
        return path.read_bytes(), file.read()[0][0]


@pytest.mark.parametrize("name", INPUTS)
def test_frames_are_those_of_mdtraj(tmp_path, name):
    x = INPUTS[name]
    data, positions = of_mdtraj(tmp_path / "a.xtc", x)
    assert encode_frame(x, BOX, 7, 1.5) == data
    found, box, time = decode_frame(data)
    assert found.dtype == np.float32 and np.array_equal(found, positions)
    assert np.array_equal(box, BOX.astype(np.float32)) and time == 1.5


@settings(max_examples=200, deadline=None)
@given(
    x=st.integers(1, 40).flatmap(
        lambda n: arrays(np.float32, (n, 3), elements=st.floats(-5000, 5000, width=32) | st.floats(-1, 1, width=32))
    )
)
def test_random_frames_are_those_of_mdtraj(tmp_path_factory, x):
    data, positions = of_mdtraj(tmp_path_factory.mktemp("xtc") / "a.xtc", x)
    assert encode_frame(x, BOX, 7, 1.5) == data
    assert np.array_equal(decode_frame(data)[0], positions)


def test_distances_of_micrometers_are_read_back():
    """Here the table of ranges ends, beyond which the library of GROMACS reads."""
    x = np.random.default_rng(0).normal(0, 2e4, (300, 3))
    found = decode_frame(encode_frame(x, BOX, 1, 1.0))[0]
    assert np.abs(found - x).max() < 0.02


def test_large_frames_have_a_length_of_64_bits():
    frame = encode_frame(water(), BOX, 7, 1.5)
    large = struct.pack(">i", 2023) + frame[4:88] + struct.pack(">q", *struct.unpack(">i", frame[88:92])) + frame[92:]
    assert np.array_equal(decode_frame(large)[0], decode_frame(frame)[0])


@pytest.mark.parametrize(
    "x, message",
    [
        (np.full((10, 3), np.nan), "finite and below 2147484 nm, got .* for atom 0"),
        (np.r_[np.zeros((12, 3)), [[0, 3e6, 0]]], "for atom 12 of the frame"),
        (np.r_[np.zeros((12, 3)), [[-2e6, 0, 0], [2e6, 0, 0]]], "must span less than 2147484 nm, got 4000000 nm"),
    ],
)
def test_positions_that_do_not_fit_are_named(x, message):
    with pytest.raises(ValueError, match=message):
        encode_frame(x, BOX, 1, 1.0)


def three_frames(path):
    frames = [encode_frame(water(30) + k, BOX, k, float(k)) for k in range(3)]
    path.write_bytes(b"".join(frames))
    return [len(f) for f in frames]


def test_a_file_that_is_being_written_has_its_whole_frames(tmp_path):
    path = tmp_path / "a.xtc"
    lengths = three_frames(path)
    data = path.read_bytes()
    for missing in (1, 40, lengths[2] - 93, lengths[2] - 20):
        path.write_bytes(data[:-missing])
        assert len(sponge.load_trajectory(path)) == 2
    trajectory = sponge.load_trajectory(path)
    assert trajectory.times.tolist() == [0, 1] and np.allclose(trajectory.boxes[1], BOX)
    path.write_bytes(data[:30])
    with pytest.raises(FileFormatError, match="at least one frame"):
        sponge.load_trajectory(path)


@pytest.mark.parametrize(
    "at, value, message",
    [
        (0, ">i=1996", "XTC frame 1 must begin with 1995 or 2023, got 1996"),
        (4, ">i=89", "frame 1 must have one positive number of atoms, got 89 and 90"),
        (56, ">f=-1000", "frame 1 has a precision, corners or a range that no frame has"),
        (60, ">i=9999", "frame 1 has a precision, corners"),
        (84, ">i=8", "frame 1 has a precision, corners"),
        (84, ">i=73", "frame 1 has a precision, corners"),
        (84, ">i=40", "frame 1 has atoms that do not fit its corners or its length"),
        (88, ">i=-4", "frame 1 cannot hold 90 atoms in -4 bytes"),
        (88, ">i=100000", "frame 1 cannot hold 90 atoms in 100000 bytes"),
        (72, ">i=2000000", "frame 1 (ends before|has atoms that do not fit)"),
        (16, ">f=nan", "frame 1 .*lengths must be positive and finite"),
    ],
)
def test_damage_is_named_by_its_frame(tmp_path, at, value, message):
    path = tmp_path / "a.xtc"
    begin = three_frames(path)[0]
    form, number = value.split("=")
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, begin + at, float(number) if form == ">f" else int(number))
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=rf"a.xtc: XTC {message.removeprefix('XTC ')}"):
        list(sponge.load_trajectory(path))


def test_frames_of_other_sizes_are_refused(tmp_path):
    path = tmp_path / "a.xtc"
    path.write_bytes(encode_frame(water(30), BOX, 0, 0.0) + encode_frame(water(31), BOX, 1, 1.0))
    with pytest.raises(FileFormatError, match="XTC frame 1 must have the 90 atoms of the first, got 93"):
        sponge.load_trajectory(path)
    path.write_bytes(b"not an XTC file at all, but long enough to be one" * 4)
    with pytest.raises(FileFormatError, match="XTC frame 0 must begin with 1995"):
        sponge.load_trajectory(path)


def test_bits_that_are_changed_never_crash():
    """Any change of the compressed part is decoded to positions within the corners, or refused."""
    frame = encode_frame(water(100), BOX, 1, 1.0)
    rng, refused = np.random.default_rng(0), 0
    for _ in range(2000):
        data = bytearray(frame)
        for at in rng.integers(84, len(frame), rng.integers(1, 6)):
            data[at] ^= 1 << rng.integers(8)
        try:
            x = decode_frame(bytes(data))[0]
        except (ValueError, EOFError):
            refused += 1
        else:
            assert np.isfinite(x).all() and x.min() > -1 and x.max() < 8
    assert refused > 500
