"""The disk cache: what is put is got, whatever happens to the files or the processes in between."""

import ast
import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from triskele.core.compile import source_modules as generated
from triskele.core.disk import disk_cache


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRISKELE_CACHE_DIR", str(tmp_path / "store"))
    return tmp_path / "store"


def entries(folder):
    return [p for p in folder.rglob("*") if p.is_file()]


def test_round_trip_and_clear(folder):
    key = disk_cache.make_key("x", b"\x00\xff")
    assert disk_cache.get(key) is None
    assert disk_cache.put(key, b"data") and disk_cache.put(disk_cache.make_key("empty"), b"")
    assert disk_cache.get(key) == b"data"
    assert disk_cache.get(disk_cache.make_key("empty")) == b""
    disk_cache.clear_cache()
    assert disk_cache.get(key) is None
    assert entries(folder) == []


def test_keys_depend_on_where_parts_end():
    assert disk_cache.make_key("ab", "c") != disk_cache.make_key("a", "bc")
    assert disk_cache.make_key("ab", "") != disk_cache.make_key("ab")


@pytest.mark.parametrize("damage", ["truncated", "emptied", "one bit", "not ours"])
def test_damaged_entry_is_discarded(folder, damage):
    key = disk_cache.make_key("x")
    disk_cache.put(key, b"a" * 100)
    (path,) = entries(folder)
    raw = path.read_bytes()
    path.write_bytes(
        {"truncated": raw[:-1], "emptied": b"", "one bit": raw[:-5] + b"b" + raw[-4:], "not ours": b"hello"}[damage]
    )
    assert disk_cache.get(key) is None
    assert entries(folder) == []
    assert disk_cache.put(key, b"again") and disk_cache.get(key) == b"again"


def test_an_entry_under_another_key_is_discarded(folder):
    one, two = disk_cache.make_key("one"), disk_cache.make_key("two")
    disk_cache.put(one, b"data")
    disk_cache._path(two).parent.mkdir(exist_ok=True)
    disk_cache._path(one).rename(disk_cache._path(two))
    assert disk_cache.get(two) is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
class TestPlanted:
    @pytest.mark.parametrize("where", ["folder", "entry"])
    @pytest.mark.parametrize("change", ["all may write", "a group may write", "another user's"])
    def test_what_others_can_have_planted_is_not_used(self, folder, monkeypatch, caplog, where, change):
        if change != "all may write" and os.geteuid():
            pytest.skip("only root gives files away")
        monkeypatch.setattr(disk_cache, "_trusted", {})
        key = disk_cache.make_key("x")
        disk_cache.put(key, b"data")
        disk_cache._trusted.clear()
        path = folder if where == "folder" else disk_cache._path(key)
        if change == "all may write":
            path.chmod(0o777)
        elif change == "a group may write":
            os.chown(path, -1, 12345)
            path.chmod(0o770)
        else:
            os.chown(path, 12345, -1)
        assert disk_cache.get(key) is None and disk_cache.get(key) is None
        assert "is not used" in caplog.text
        disk_cache.clear_cache()
        if where == "folder":
            assert disk_cache._path(key).exists() and not disk_cache.put(disk_cache.make_key("y"), b"data")
            assert caplog.text.count("is not used") == 1
            module = generated.load_module(f"number = {change!r}", "planted")
            assert module.number == change and str(folder) not in module.__file__

    def test_a_private_group_may_write(self, folder, monkeypatch):
        """As a umask of 002 has it, where every user has a group of his own."""
        monkeypatch.setattr(disk_cache, "_trusted", {})
        folder.mkdir()
        folder.chmod(0o775)
        key = disk_cache.make_key("x")
        assert disk_cache.put(key, b"data") and disk_cache.get(key) == b"data"


def test_full_disk_leaves_nothing_behind(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(disk_cache.os, "replace", full)
        assert not disk_cache.put(disk_cache.make_key("x"), b"data")
    assert entries(folder) == []


def test_interrupt_while_writing_leaves_nothing_behind(folder, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(disk_cache.os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            disk_cache.put(disk_cache.make_key("x"), b"data")
    assert entries(folder) == []


def test_unusable_folder_costs_only_time(tmp_path, monkeypatch):
    blocker = tmp_path / "file"
    blocker.write_text("a file, where the folder should be")
    monkeypatch.setenv("TRISKELE_CACHE_DIR", str(blocker / "store"))
    assert not disk_cache.put(disk_cache.make_key("x"), b"data")
    assert disk_cache.get(disk_cache.make_key("x")) is None
    disk_cache.clear_cache()


def test_killed_writer_leaves_no_broken_entry(folder):
    """A process that is killed at any moment of writing leaves whole entries only."""
    program = (
        "import sys\nfrom triskele.core.extend import disk_cache\nprint('go', flush=True)\n"
        "while True:\n for i in range(20): disk_cache.put(disk_cache.make_key(str(i)), bytes([i]) * 300_000)\n"
    )
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    for delay in (0.0, 0.003, 0.02):
        writer = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment)
        writer.stdout.readline()
        time.sleep(delay)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        for i in range(20):
            assert disk_cache.get(disk_cache.make_key(str(i))) in (None, bytes([i]) * 300_000)


def test_least_recently_used_entries_go_first(folder):
    keys = [disk_cache.make_key(str(i)) for i in range(4)]
    for age, key in zip((400, 300, 200, 100), keys, strict=True):
        disk_cache.put(key, b"x" * 1000)
        stamp = time.time() - age * 3600
        os.utime(disk_cache._path(key), (stamp, stamp))
    assert disk_cache.get(keys[0]) is not None  # now the most recently used
    disk_cache._evict(2100)
    assert [disk_cache.get(k) is not None for k in keys] == [True, False, False, True]


def test_forgotten_temporary_files_are_removed(folder):
    disk_cache.put(disk_cache.make_key("x"), b"data")
    shard = next(p for p in folder.iterdir() if p.is_dir())
    old, young = shard / ".old.part", shard / ".young.part"
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    os.utime(old, (1e9, 1e9))
    disk_cache._evict(1 << 30)
    assert not old.exists() and young.exists()
    assert disk_cache.get(disk_cache.make_key("x")) == b"data"


def test_writers_and_readers_at_once():
    wrong = []

    def work(seed):
        for i in range(60):
            key = disk_cache.make_key(str((i * seed) % 7))
            expected = key.encode() * 50
            disk_cache.put(key, expected)
            if disk_cache.get(key) not in (expected, None):
                wrong.append(key)

    workers = [threading.Thread(target=work, args=(s,)) for s in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_stamp_follows_the_sources(tmp_path):
    for name in ("compile", "kernels/inner", "ops"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "kernels/inner/a.py").write_text("x = 1")

    def stamp():
        disk_cache._stamp.cache_clear()
        return disk_cache._stamp(tmp_path, ("compile", "kernels", "ops"))

    first = stamp()
    assert stamp() == first
    (tmp_path / "kernels/inner/a.py").write_text("x = 2")
    second = stamp()
    (tmp_path / "kernels/inner/a.py").rename(tmp_path / "ops/a.py")
    third = stamp()
    assert len({first, second, third}) == 3
    (tmp_path / "ops/a.py").write_text('"""Two."""\n# it is even\nx = 2')
    with_docstring = stamp()
    (tmp_path / "ops/a.py").write_text('"""The first even\nprime."""\nx = 2')
    assert stamp() == with_docstring != third


ROOT = Path(__file__).parents[2]


def syntax(text):
    """The syntax tree of a source without its docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node) is not None:
                node.body[0] = ast.Pass()
    return ast.dump(tree)


def test_only_words_are_taken_from_sources():
    """Every source of the suite is the same program without what stamps leave out, and the words are gone."""
    sources = [path for name in ("core", "sponge", "quantum", "reinforce") for path in (ROOT / name).rglob("*.py")]
    before, after = 0, 0
    for path in sources:
        text = path.read_text(encoding="utf-8")
        code = disk_cache.code_of(text)
        assert syntax(code) == syntax(text), path
        before, after = before + len(text), after + len(code)
    assert len(sources) > 900 and after < 0.85 * before
