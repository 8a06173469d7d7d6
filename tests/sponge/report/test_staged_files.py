"""Files whose writes reach the disk together, at a commit."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele.sponge.report.staged import StagedFile


@pytest.mark.parametrize("new", [True, False])
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_staged_files_are_files(tmp_path_factory, new, data):
    """Any writes, reads, cuts and commits give what a plain file gives; without a commit the disk has nothing of
    them.
    """
    folder = tmp_path_factory.mktemp("staged")
    for name in ("one", "two"):
        (folder / name).write_bytes(b"0123456789" * 5000)
    plain = open(folder / "one", "w+b" if new else "r+b")
    staged = StagedFile(os.fspath(folder / "two"), new)
    for _ in range(data.draw(st.integers(1, 12))):
        at, size = data.draw(st.integers(0, 60_000)), data.draw(st.integers(0, 40_000))
        action = data.draw(st.sampled_from(["write", "read", "truncate", "commit"]))
        for file in (plain, staged):
            file.seek(at)
        if action == "write":
            content = bytes([at % 256]) * size
            assert plain.write(content) == staged.write(content)
        elif action == "read":
            assert plain.read(size) == staged.read(size)
        elif action == "truncate":
            plain.truncate(at)
            staged.truncate(at)
        else:
            staged.commit()
            plain.flush()
            assert (folder / "two").read_bytes() == (folder / "one").read_bytes()
    staged.commit()
    plain.close()
    staged.close()
    assert (folder / "two").read_bytes() == (folder / "one").read_bytes()


def test_a_commit_that_does_not_fit_changes_nothing(tmp_path, small_disk):
    path = tmp_path / "a"
    path.write_bytes(b"old" * 1000)
    file = StagedFile(os.fspath(path), new=False)
    file.write(b"new" * 20_000)
    small_disk(10_000)
    with pytest.raises(OSError, match="File too large"):
        file.commit()
    assert path.read_bytes() == b"old" * 1000
    small_disk(-1)
    file.commit()
    assert path.read_bytes() == b"new" * 20_000
