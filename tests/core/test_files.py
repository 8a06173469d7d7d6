"""Atomic writing: whatever stops the writer, the path holds the old file or the new one, and nothing stays beside
it.
"""

import os
import stat
import subprocess
import sys
import threading

import pytest

from triskele import core
from triskele.core.disk.files import PART, atomic

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes, links and signals are POSIX")


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def write(path, data):
    with atomic(path) as file:
        file.write(data)


def test_the_file_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "a"
    with atomic(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new" and names(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_block_that_raises_leaves_the_old_file_alone(tmp_path, error):
    path = tmp_path / "a"
    write(path, b"old")
    with pytest.raises(error), atomic(path) as file:
        file.write(b"half")
        raise error("stop")
    assert path.read_bytes() == b"old" and names(tmp_path) == ["a"]


@posix
@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_decides_who_may_read(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        core.save(tmp_path / "a", {"x": 1.0})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


@posix
def test_a_file_that_was_private_stays_private(tmp_path):
    path = tmp_path / "a"
    write(path, b"old")
    path.chmod(0o600)
    write(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@posix
def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setattr(os, "urandom", bytes)
    for planted in (".a.part", f".a.{'0' * 16}.part"):
        (folder / planted).symlink_to(victim)
    with pytest.raises(FileExistsError):  # even a guessed name
        write(folder / "a", b"new")
    assert victim.read_bytes() == b"precious"
    monkeypatch.undo()
    write(folder / "a", b"new")
    assert victim.read_bytes() == b"precious" and (folder / "a").read_bytes() == b"new"


@posix
def test_a_link_at_the_path_is_replaced(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "a").symlink_to(victim)
    write(tmp_path / "a", b"new")
    assert victim.read_bytes() == b"precious" and not (tmp_path / "a").is_symlink()


def start_writer(path):
    """A process that stands in the middle of writing."""
    program = (
        "import sys\nfrom triskele.core.disk.files import atomic\nwith atomic(sys.argv[1]) as file:\n"
        " file.write(b'half' * 10000)\n file.flush()\n print('go', flush=True)\n sys.stdin.read()\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
    )
    assert writer.stdout.readline().strip() == b"go"
    return writer


@posix
def test_leftovers_of_killed_writers_go_and_those_of_living_ones_stay(tmp_path):
    path, other = tmp_path / "a", tmp_path / "a.b"
    write(path, b"old")
    killed, alive, elsewhere = start_writer(path), start_writer(path), start_writer(other)
    for writer in (killed, elsewhere):
        writer.kill()
        writer.wait()
    assert len(names(tmp_path)) == 4 and path.read_bytes() == b"old"
    (tmp_path / ".a.mine.part").write_bytes(b"of the user")
    write(path, b"new")
    left = [n for n in names(tmp_path) if n.endswith(PART)]
    assert len(left) == 3 and sum(n.startswith(".a.b.") for n in left) == 1  # of the living one, of a.b, of the user
    alive.communicate()  # it goes on: the last who ends wins
    assert alive.returncode == 0 and path.read_bytes() == b"half" * 10000
    write(other, b"new")
    assert names(tmp_path) == [".a.mine.part", "a", "a.b"]
    for writer in (killed, elsewhere):
        writer.stdin.close()
        writer.stdout.close()


def test_writers_at_once_leave_one_whole_file(tmp_path):
    path = tmp_path / "a"
    contents = [bytes([k]) * 50_000 for k in range(4)]

    def work(data):
        for _ in range(25):
            write(path, data)

    workers = [threading.Thread(target=work, args=(c,)) for c in contents]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert path.read_bytes() in contents and names(tmp_path) == ["a"]


@posix
@pytest.mark.parametrize("buffered", [True, False])
def test_a_disk_without_space_is_named_and_the_old_file_stays(tmp_path, buffered):
    import resource

    path = tmp_path / "a"
    write(path, b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        with pytest.raises(OSError, match="holds what it held before.*/a'"):
            write(path, b"x" * (6000 if buffered else 600_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"old" and names(tmp_path) == ["a"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="the folder must exist.*none.a'"):
        write(tmp_path / "none" / "a", b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder'"):
        write(tmp_path / "folder", b"")
    assert names(tmp_path) == ["folder"]


def test_long_names_and_relative_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("x" * 255, "\N{TRIANGULAR FLAG ON POST}" * 60, "a"):
        write(name, b"data")
        write(os.fsencode(name), b"data")
    assert len(names(tmp_path)) == 3
