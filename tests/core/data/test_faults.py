"""Bad input and faults: messages name the step, the sample and its file; workers end."""

import io
import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import threading
import traceback

import numpy as np
import pytest
from PIL import Image

from triskele import core
from triskele.core import data


@pytest.fixture
def pictures(tmp_path):
    """Two classes of three images of several sizes."""
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for k in range(3):
            Image.fromarray(rng.integers(0, 256, (10 + k, 12, 3), dtype=np.uint8)).save(tmp_path / name / f"{k}.png")
    return tmp_path


def workers():
    return [t for t in threading.enumerate() if t.name.startswith("triskele-data")]


def fails_at_three(x):
    if x == 3:
        raise KeyError("three")
    return x


@pytest.mark.parametrize("options", [None, {"workers": 1}, {"workers": 3}, {"workers": 2, "processes": True}], ids=str)
def test_a_transform_that_raises_names_itself_and_the_sample(options):
    source = data.arrays(np.arange(8)).map(fails_at_three).batch(2)
    source = source if options is None else source.prefetch(**options)
    iterator = iter(source)
    assert next(iterator).tolist() == [0, 1]
    with pytest.raises(data.DataError, match="map: `fails_at_three` failed at sample 3: KeyError: 'three'") as caught:
        next(iterator)
    assert 'raise KeyError("three")' in "".join(traceback.format_exception(caught.value))
    assert not workers()


def test_a_compiled_transform_that_raises_names_the_sample_and_the_file(pictures):
    source = data.folders(pictures).map(data.image.center_crop(11)).batch(2)
    with pytest.raises(data.DataError, match=r"`CenterCrop` failed at sample 0 \(.*cat.0.png\): ValueError"):
        next(iter(source))


def test_damaged_images_are_named(pictures):
    path = pictures / "dog" / "1.png"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(data.DataError, match=r"folders: cannot read sample 4 \(.*dog.1.png\): decode: the image .*"):
        list(data.folders(pictures).prefetch(workers=2))


def test_images_of_several_sizes_need_a_resize(pictures):
    with pytest.raises(
        data.DataError,
        match=r"batch: all samples must have one shape, got .*10, 12, 3.* at sample 0 .*"
        r"11, 12, 3.* at sample 1 \(.*1.png\) \(resize",
    ):
        next(iter(data.folders(pictures).batch(3)))
    images, labels = next(iter(data.folders(pictures).map(data.image.resize(8)).batch(6)))
    assert images.shape == (6, 8, 8, 3)
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_folders_must_have_images(tmp_path):
    with pytest.raises(data.DataError, match="got no folders"):
        data.folders(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(data.DataError, match="must have images, got none in '.*cat'"):
        data.folders(tmp_path)


def write_shard(path, files):
    with tarfile.open(path, "w") as archive:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_shards(tmp_path):
    array = io.BytesIO()
    np.save(array, np.arange(3))
    files = [[(f"a/{k}.cls", str(k).encode()), (f"a/{k}.x.npy", array.getvalue())] for k in range(4)]
    one = write_shard(tmp_path / "0.tar", files[0] + files[1])
    two = write_shard(tmp_path / "1.tar", files[2] + files[3])
    source = data.tar([one, two])
    batch = next(iter(source.batch(4)))
    assert batch["cls"].tolist() == [0, 1, 2, 3]
    assert batch["x.npy"].shape == (4, 3)
    content = two.read_bytes()
    for cut in (700, 1024, 1600, 3000, len(content) // 512 * 512 - 8192):
        two.write_bytes(content[:cut])
        with pytest.raises(data.DataError, match="1.tar' is cut off"):
            data.tar([one, two])
    write_shard(two, files[2][:1])
    with pytest.raises(data.DataError, match="all samples must have the same files, got cls at 'a/2' of .* cls, x.npy"):
        data.tar([one, two])
    write_shard(two, [("0.cls", b"many")])
    with pytest.raises(data.DataError, match=r"tar: cannot read sample 0 \(0 of .*\): the file .cls is damaged"):
        next(iter(data.tar(two)))


def test_tables(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('age,income,name\n30,1.5,Ada\n41,,"Max, jr"\n')
    sample = list(data.csv(path))[1]
    assert sample["age"] == 41
    assert np.isnan(sample["income"])
    assert sample["name"] == "Max, jr"
    assert next(iter(data.csv(path, ["age"], types={"age": np.float32}).batch(2)))["age"].dtype == np.float32
    with pytest.raises(data.DataError, match=r"column must be 'age', 'income' or 'name', got 'incom' .* 'income'\?\)"):
        data.csv(path, ["incom"])
    with pytest.raises(data.DataError, match="column 'name' must be int64, got 'Ada' in row 1"):
        data.csv(path, types={"name": np.int64})
    path.write_text("age,income\n30\n")
    with pytest.raises(data.DataError, match="line 2 must have 2 fields, got 1"):
        data.csv(path)
    path.write_text("age,income\n")
    with pytest.raises(data.DataError, match="at least one row"):
        data.csv(path)


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"age": [30, 41], "name": ["Ada", None], "income": [1.5, None]}), path)
    first, second = data.parquet(path)
    assert (first["age"], first["name"], second["name"]) == (30, "Ada", "")
    assert np.isnan(second["income"])
    with pytest.raises(data.DataError, match="column must be 'age', 'name' or 'income', got 'ages'.* mean 'age'"):
        data.parquet(path, ["ages"])


def test_memory_maps(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(20.0).reshape(10, 2))
    np.save(tmp_path / "y.npy", np.arange(9))
    source = data.memory_map(tmp_path / "x.npy").shuffle(0).batch(10)
    assert sorted(next(iter(source))[:, 0]) == list(range(0, 20, 2))
    assert source.arrays_in_memory() is None
    with pytest.raises(ValueError, match=r"same number of samples along axis 0, got shapes \[\(10, 2\), \(9,\)\]"):
        data.memory_map(tmp_path / "x.npy", tmp_path / "y.npy")
    (tmp_path / "y.npy").write_bytes(b"no array")
    with pytest.raises(ValueError, match="y.npy' must be an array"):
        data.memory_map(tmp_path / "y.npy")


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda: data.arrays(np.ones((3, 2)), np.ones(4)), "same number of samples"),
        (lambda: data.arrays(np.ones((0, 2))), "at least one sample"),
        (lambda: data.arrays(np.arange(3)).batch(4, drop_remainder=True), "size must be at most 3"),
        (lambda: data.arrays(np.arange(3)).batch(0), "size must be an integer >= 1, got 0"),
        (lambda: data.generator(lambda: iter(())).shuffle(0), "a stream needs a buffer"),
        (lambda: len(data.arrays(np.arange(3)).filter(bool)), "number of elements is not known"),
        (lambda: data.arrays(np.arange(3)).shard(3, 3), "index must be an integer from 0 to 2"),
        (lambda: data.arrays(np.arange(3)).map(3), "f must be a function, got int 3"),
        (lambda: list(data.generator(lambda: (1 // k for k in (1, 0)))), "generator: `<lambda>` failed at sample 1"),
        (lambda: data.generator([1, 2]), "make must be a function that returns an iterable"),
        (lambda: data.image.flip(0.5) | abs, "transform or a function under core.jit"),
        (lambda: data.image.flip(0.5)(np.ones((4, 4, 3))), "needs a key"),
        (lambda: next(iter(data.arrays({"x": np.ones((2, 4, 4, 3))}).map(data.image.center_crop(2)))), "on='x'"),
        (lambda: next(iter(data.arrays(np.ones((2, 4)), np.ones(2)).map(abs, on=2))), "needs the entry 2, got"),
        (
            lambda: next(iter(data.arrays(np.arange(3)).filter(lambda x: x["a"]))),
            "filter: `<lambda>` failed at sample 0",
        ),
        (lambda: next(iter(data.arrays(np.arange(3)).prefetch().map(lambda x: 1 // 0 * x))), "ZeroDivisionError"),
        (
            lambda: iter(data.arrays(np.arange(3)).map(lambda x: x).prefetch(processes=True)).__next__(),
            "can be pickled",
        ),
    ],
)
def test_bad_input_is_named(wrong, message):
    with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(").replace("[", r"\[")):
        wrong()


def ends(x):
    os._exit(3)


def test_a_process_that_ends_is_reported():
    with pytest.raises(data.DataError, match="a process of workers ended by itself"):
        list(data.arrays(np.arange(4)).map(ends).prefetch(processes=True))


def square(x):
    return x * x


def test_processes_give_the_same_elements():
    source = data.arrays(np.arange(10)).shuffle(0).map(square).batch(3)
    assert [b.tolist() for b in source.prefetch(workers=2, processes=True)] == [b.tolist() for b in source]


def test_no_thread_outlives_its_iterator():
    source = data.arrays(np.arange(1000)).map(square).batch(2).prefetch(8, workers=3)
    list(source)
    assert not workers()
    iterator = iter(source)
    next(iterator)
    assert len(workers()) == 3
    iterator.close()
    assert not workers()
    for batch in source:
        assert batch.tolist() == [0, 1]
        break
    assert not workers()


def test_interrupts_end_workers_and_processes(tmp_path):
    """Ctrl-C in the middle of an epoch: KeyboardInterrupt in the user's thread, and nothing is left behind."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import multiprocessing, threading, time
        import numpy as np
        from triskele.core import data

        def slow(x):
            time.sleep(0.05)
            return x

        if __name__ == "__main__":
            for processes in (False, True):
                source = data.arrays(np.arange(10_000)).map(slow).batch(2).prefetch(workers=2, processes=processes)
                try:
                    for k, batch in enumerate(source):
                        if k == 3:
                            print("ready", flush=True)
                except KeyboardInterrupt:
                    left = [t for t in threading.enumerate() if t.name.startswith("triskele-data")]
                    print("interrupted", len(left), len(multiprocessing.active_children()), flush=True)
    """)
    )
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    for _ in range(2):
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "interrupted 0 0\n"
    assert process.wait(30) == 0
    process.stdout.close()


def test_a_stream_of_samples_flows_through_compiled_maps():
    source = data.generator(lambda: (np.full((4, 4, 3), k, np.uint8) for k in range(5)))
    found = list(source.map(data.image.normalize(0.0, 1.0)).batch(2))
    assert [b.shape[0] for b in found] == [2, 2, 1]
    assert np.allclose(found[1][0], 2 / 255)
    assert core.tree.leaves(found[0])[0].dtype == np.float32
