"""AMBER NetCDF trajectories: those that MDTraj writes, and files that are none."""

import io

import numpy as np
import pytest
from scipy.io import netcdf_file

from triskele import sponge
from triskele.sponge.box import from_lengths_angles
from triskele.sponge.errors import FileFormatError


@pytest.mark.filterwarnings("ignore:.*netCDF4:UserWarning")
@pytest.mark.parametrize("periodic", [True, False])
def test_files_of_mdtraj(tmp_path, periodic):
    formats = pytest.importorskip("mdtraj").formats
    x = np.random.default_rng(0).normal(0, 3, (5, 7, 3)).astype(np.float32)
    cell = {"cell_lengths": np.full((5, 3), [30, 32, 34.0]), "cell_angles": np.full((5, 3), [70, 80, 65.0])}
    with formats.NetCDFTrajectoryFile(str(tmp_path / "a.nc"), "w") as file:
        file.write(10 * x, time=np.arange(5) * 0.5, **(cell if periodic else {}))
    trajectory = sponge.load_trajectory(tmp_path / "a.nc")
    assert (len(trajectory), trajectory.n) == (5, 7) and trajectory.times.tolist() == [0, 0.5, 1, 1.5, 2]
    np.testing.assert_allclose(trajectory.positions, x, atol=1e-6)
    assert np.array_equal(trajectory[3].positions, (10 * x[3]).astype(np.float64) * 0.1)
    if periodic:
        expected = from_lengths_angles([3.0, 3.2, 3.4], np.radians([70.0, 80.0, 65.0]))
        np.testing.assert_allclose(trajectory.boxes, np.broadcast_to(expected, (5, 3, 3)), atol=1e-12)
    else:
        assert trajectory.boxes is None


def written(frames=2, convention="AMBER", axes=("frame", "atom", "spatial"), units="angstrom", lengths=30.0):
    """A file without times."""
    buffer = io.BytesIO()
    file = netcdf_file(buffer, "w", version=2)
    file.Conventions = convention
    for name, size in (("frame", None), ("atom", 4), ("spatial", 3)):
        file.createDimension(name, size)
    variable = file.createVariable("coordinates", "f", axes)
    variable.units = units
    cell = file.createVariable("cell_lengths", "d", ("frame", "spatial"))
    angles = file.createVariable("cell_angles", "d", ("frame", "spatial"))
    for k in range(frames):
        cell[k], angles[k] = lengths, 90.0
        if axes[0] == "frame":
            variable[k] = 1.0
    file.flush()
    return buffer.getvalue()


def test_a_file_without_times(tmp_path):
    (tmp_path / "a.ncdf").write_bytes(written())
    trajectory = sponge.load_trajectory(tmp_path / "a.ncdf")
    assert trajectory.times is None and np.allclose(trajectory.boxes, 3 * np.eye(3)) and len(trajectory) == 2


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "must be a NetCDF file of version 3"),
        (b"CDF\x02nothing of the kind", "must be a NetCDF file of version 3"),
        (written()[:-60], "must be a NetCDF file of version 3"),
        (written(convention="AMBERRESTART"), "must be an AMBER trajectory"),
        (written(convention="CF-1.0"), r"must be an AMBER trajectory .*CF-1.0"),
        (written(axes=("atom", "spatial")), r"must be an AMBER trajectory .* got \(4, 3\)"),
        (written(units="nanometer"), "coordinates must be in angstrom, got b'nanometer'"),
        (written(frames=0), ".*at least one frame"),
        (written(lengths=-1.0), "frame 0: .*positive"),
    ],
)
def test_damaged_files_are_refused(tmp_path, data, message):
    (tmp_path / "a.nc").write_bytes(data)
    with pytest.raises(FileFormatError, match=rf"a.nc: {message}"):
        list(sponge.load_trajectory(tmp_path / "a.nc"))
    with pytest.raises(FileNotFoundError):
        sponge.load_trajectory(tmp_path / "none.nc")
