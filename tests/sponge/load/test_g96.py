"""Structures of GROMACS in GROMOS-96's format."""

import numpy as np
import pytest

from triskele.core.errors import FileFormatError
from triskele.sponge.load.g96 import read_g96

G96 = """TITLE
two atoms
END
POSITION
    1 SOL   OW         1    0.126000000    1.624000001    1.679000000
    1 SOL   HW1        2    0.190000000    1.661000000    1.747000000
END
VELOCITY
    1 SOL   OW         1    0.100000000   -0.200000000    0.300000000
    1 SOL   HW1        2    0.000000000    0.000000000    0.000000000
END
BOX
    3.000000000    3.100000000    3.200000000
END
"""


def test_g96(tmp_path):
    path = tmp_path / "x.g96"
    path.write_text(G96)
    found = read_g96(path)
    assert found["positions"].tolist() == [[0.126, 1.624000001, 1.679], [0.19, 1.661, 1.747]]
    assert found["velocities"][0].tolist() == [0.1, -0.2, 0.3]
    assert np.diag(found["box"]).tolist() == [3.0, 3.1, 3.2]
    reduced = "\n".join(line[24:] if line.startswith("    1 ") else line for line in G96.split("\n"))
    path.write_text(reduced.replace("POSITION", "POSITIONRED").replace("VELOCITY", "VELOCITYRED"))
    assert np.array_equal(read_g96(path)["positions"], found["positions"])
    for cut in (5, 60, 150, len(G96) - 6):
        path.write_text(G96[:cut])
        with pytest.raises(FileFormatError):
            read_g96(path)
    path.write_text(G96.replace("1.624000001", "1.62400000x"))
    with pytest.raises(FileFormatError, match="line 5: must hold three numbers"):
        read_g96(path)
