"""AMBER's coordinate and restart files, as text and as NetCDF."""

import gzip

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge.errors import FileFormatError
from triskele.sponge.load.amber_files import read_restart
from triskele.sponge.units import degree


def _rows(values, per_line, form):
    lines = ["".join(form.format(v) for v in values[k : k + per_line]) for k in range(0, len(values), per_line)]
    return "\n".join(lines or [""]) + "\n"


class TestCoordinates:
    def values(self, rng, n):
        return (
            rng.uniform(-999, 999, (n, 3)),
            rng.uniform(-3, 3, (n, 3)),
            np.array([40.0, 41.0, 42.0]),
            np.array([80.0, 75.0, 85.0]),
        )

    def ascii(self, x, v=None, edges=None, angles=None):
        rows = lambda a: _rows([*a.ravel()], 6, "{:12.7f}")
        return (
            "title\n"
            + f"{len(x):5d}  0.1000000E+02\n"
            + rows(x)
            + (rows(v) if v is not None else "")
            + (rows(np.concatenate([edges, angles])) if edges is not None else "")
        )

    @pytest.mark.parametrize("n", [3, 4, 101])
    @pytest.mark.parametrize("with_velocities", [False, True])
    @pytest.mark.parametrize("with_box", [False, True])
    def test_ascii(self, n, with_velocities, with_box, rng, tmp_path):
        x, v, edges, angles = self.values(rng, n)
        path = tmp_path / "x.rst7"
        path.write_text(self.ascii(x, v if with_velocities else None, edges if with_box else None, angles))
        found = read_restart(path)
        assert found["positions"] == pytest.approx(x / 10, abs=1e-8)
        assert found["time"] == 10.0
        if with_velocities:
            assert found["velocities"] == pytest.approx(v * 2.0455, abs=1e-6)
        else:
            assert found["velocities"] is None
        if with_box:
            lengths, corner = sponge.box.angles_and_lengths(sponge.box.from_lengths_angles(edges / 10, angles * degree))
            assert found["box"] == pytest.approx(sponge.box.from_lengths_angles(lengths, corner))
        else:
            assert found["box"] is None

    def test_numbers_that_touch(self, tmp_path):
        path = tmp_path / "x.inpcrd"
        path.write_text("title\n    2\n-999.1234567-888.1234567-777.12345671000.12345671234.12345670001.1234567\n")
        assert read_restart(path)["positions"][1] == pytest.approx([100.01234567, 123.41234567, 0.11234567], abs=1e-9)

    def test_netcdf(self, rng, tmp_path):
        netcdf_file = pytest.importorskip("scipy.io").netcdf_file
        x, v, edges, angles = self.values(rng, 7)
        path = tmp_path / "x.ncrst"
        with netcdf_file(path, "w", version=2) as file:
            file.Conventions = "AMBERRESTART"
            for name, size in (("atom", 7), ("spatial", 3), ("cell_spatial", 3), ("cell_angular", 3)):
                file.createDimension(name, size)
            for name, dimensions, values in (
                ("coordinates", ("atom", "spatial"), x),
                ("velocities", ("atom", "spatial"), v),
                ("cell_lengths", ("cell_spatial",), edges),
                ("cell_angles", ("cell_angular",), angles),
            ):
                file.createVariable(name, "d", dimensions)[:] = values
            file.variables["velocities"].scale_factor = 20.455
            file.createVariable("time", "d", ())[...] = 12.5
        found = read_restart(path)
        assert (
            found["positions"] == pytest.approx(x / 10)
            and found["velocities"] == pytest.approx(v * 2.0455)
            and found["time"] == 12.5
        )
        assert found["box"] == pytest.approx(sponge.box.from_lengths_angles(edges / 10, angles * degree))
        path.write_bytes(path.read_bytes()[:300])
        with pytest.raises(FileFormatError, match="NetCDF"):
            read_restart(path)

    def test_truncated_octahedron(self, tmp_path):
        """Angles of 109.47 degrees become the reduced box; the volume is 4/9 sqrt(3) a^3."""
        text = self.ascii(np.zeros((3, 3)), None, np.full(3, 40.0), np.full(3, 109.4712190))
        path = tmp_path / "x.inpcrd"
        path.write_text(text)
        box = read_restart(path)["box"]
        assert sponge.box.volume(box) == pytest.approx(4 / 9 * np.sqrt(3) * 4.0**3, rel=1e-7)
        assert np.all(np.abs(box[1:, 0]) <= box[0, 0] / 2 + 1e-9) and abs(box[2, 1]) <= box[1, 1] / 2 + 1e-9

    def test_every_truncation_is_an_error(self, rng, tmp_path):
        """Cut anywhere, the file must not be read as one of fewer atoms, or with a shorter number."""
        x, v, edges, angles = self.values(rng, 6)
        text = self.ascii(x, v, edges, angles).rstrip("\n")
        path = tmp_path / "x.rst7"
        whole = [len("\n".join(text.split("\n")[:k])) for k in (5, 8)]  # without velocities and box, and without box
        for cut in range(1, len(text)):
            if len(text[:cut].rstrip()) in whole:
                continue
            path.write_text(text[:cut])
            with pytest.raises(FileFormatError):
                read_restart(path)


def test_netcdf_keeps_its_bytes(tmp_path):
    """A restart whose numbers contain the bytes of a DOS line end."""
    netcdf_file = pytest.importorskip("scipy.io").netcdf_file
    x = np.frombuffer(b"\x40\x0d\x0a\x0d\x0a\x0d\x0a\x01" * 12, ">f8").astype(float).reshape(4, 3)
    path = tmp_path / "x.ncrst"
    with netcdf_file(path, "w", version=2) as file:
        file.Conventions = "AMBERRESTART"
        for name, size in (("atom", 4), ("spatial", 3)):
            file.createDimension(name, size)
        file.createVariable("coordinates", "d", ("atom", "spatial"))[:] = x
    assert b"\r\n" in path.read_bytes()
    assert read_restart(path)["positions"] == pytest.approx(0.1 * x, rel=1e-15)
    path.with_suffix(".gz").write_bytes(gzip.compress(path.read_bytes()))
    assert read_restart(path.with_suffix(".gz"))["positions"] == pytest.approx(0.1 * x, rel=1e-15)
