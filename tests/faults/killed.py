"""Processes that are killed: what they leave on disk is whole, and a resumed run equals the uninterrupted one bit for
bit.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tests.faults.fault import Fault
from tests.reporting import stop_at
from triskele import core, sponge
from triskele import reinforce as rl
from triskele.core import data, nn, optim, train
from triskele.core.disk import disk_cache

__all__ = ["FAULTS"]

ROOT = Path(__file__).resolve().parents[2]


def killed(program, folder, wait, delay):
    """Run a program in `folder`, kill it `delay` seconds after it made the file `wait`; its exit status."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / '.src'}{os.pathsep}{ROOT}"}
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 300
    while not (folder / wait).exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    if process.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the process ended before it was killed: {errors.decode()[-300:]}")


def springs(n=40):
    """Dimers of `n` atoms on springs in a Langevin bath."""
    x = np.random.default_rng(0).uniform(0, 2, (n, 3))
    x[1::2] = x[::2] + [0.16, 0, 0]
    pairs = np.arange(n).reshape(-1, 2)
    system = sponge.System(sponge.Topology.of_particles(n, "C", 6, pairs), np.full(n, 12.0), None, x)
    system.add(sponge.harmonic_bond(pairs, k=1000.0, r0=0.15))
    return sponge.Simulation(system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002), seed=1)


def simulation(rng, folder):
    program = (
        "from triskele import sponge\nfrom tests.faults.killed import springs\n"
        "springs().run(10**7, report=[sponge.DCD('a.dcd', 10), sponge.CSV('a.csv', 10), sponge.Checkpoint('a.chk', "
        "50)])"
    )
    killed(program, folder, "a.chk", rng.uniform(0, 0.3))
    resumed, whole = springs(), springs()
    os.chdir(folder)
    try:
        resumed.load("a.chk")
        step = resumed.step
        resumed.run(200, report=[sponge.DCD("a.dcd", 10), sponge.CSV("a.csv", 10)])
        whole.run(step + 200, report=[sponge.DCD("b.dcd", 10), sponge.CSV("b.csv", 10)])
    finally:
        os.chdir(ROOT)
    if not (
        np.array_equal(resumed.positions, whole.positions) and np.array_equal(resumed.velocities, whole.velocities)
    ):
        return f"resumed at step {step}, positions or velocities differ"
    for kind in ("dcd", "csv"):
        if (folder / f"a.{kind}").read_bytes() != (folder / f"b.{kind}").read_bytes():
            return f"resumed at step {step}, the {kind} file differs"
    return None


def agent():
    """A small PPO agent."""
    return rl.PPO("CartPole-v1", num_envs=2, num_steps=16, minibatches=2, epochs=2, hidden=(8,), seed=5)


def training(rng, folder):
    program = (
        "from tests.faults.killed import agent\nagent().train(10**9, checkpoint='run.chk', every=64, progress=False)"
    )
    killed(program, folder, "run.chk", rng.uniform(0, 0.3))
    resumed = rl.PPO.load(folder / "run.chk")
    start, stop = resumed.steps, resumed.steps + 128
    resumed.train(progress=False, report=stop_at(stop))
    whole = agent().train(10**9, progress=False, report=stop_at(stop))
    leaves = [core.tree.leaves((a.model, a.moments)) for a in (whole, resumed)]
    if whole.steps != resumed.steps or not all(np.array_equal(a, b) for a, b in zip(*leaves, strict=True)):
        return f"resumed at {start} steps, the networks differ"
    return None


def learner(streamed, folder, epochs):
    """A small network that has trained with augmentation, shuffling, and callbacks that count epochs."""
    draw = np.random.default_rng(3)
    images, labels = draw.normal(size=(120, 6, 6, 1)).astype(np.float32), draw.integers(0, 3, 120)
    source = data.arrays(images, labels).shuffle(seed=1).map(data.image.crop(6, pad=1)).batch(32)
    net = nn.Sequential(
        [
            nn.Conv2d(core.random.key(0), 1, 4, 3),
            nn.BatchNorm.init(4),
            nn.relu,
            nn.Dropout(0.2),
            lambda x: x.reshape(len(x), -1),
            nn.Linear.init(core.random.key(1), 144, 3),
        ]
    )
    model = train.Model(net, nn.cross_entropy, optim.Adam(1e-3), metrics=["accuracy"], average=0.9)
    callbacks = [train.EarlyStopping("accuracy", patience=10**6), train.ReduceLROnPlateau("loss", patience=2)]
    if folder is not None:
        callbacks.append(train.Checkpoint(folder, every=3 if streamed else "epoch", best="loss", keep=2))
    if streamed:
        callbacks.append(train.Lambda(step_end=lambda run: None))
    history = model.fit(source, epochs, callbacks=callbacks, progress=False)
    return model, history


def network_training(rng, folder):
    streamed = bool(rng.integers(2))
    program = f"from tests.faults.killed import learner\nlearner({streamed}, 'run', 10**6)"
    killed(program, folder, "run/last.safetensors", rng.uniform(0, 0.5))
    start, _ = learner(streamed, folder / "run", 1)  # all epochs are done: the state is only read
    epochs = int(start.state.count) // 4 + 2
    resumed, history = learner(streamed, folder / "run", epochs)
    whole, records = learner(streamed, None, epochs)
    leaves = [core.tree.leaves(model.state) for model in (resumed, whole)]
    if not all(np.array_equal(a, b) for a, b in zip(*leaves, strict=True)):
        return f"resumed after {int(start.state.count)} steps, the state differs"
    return None if history.records == records.records else "the history differs"


def cache_writer(rng, folder):
    program = (
        "import os\nfrom pathlib import Path\nos.environ['TRISKELE_CACHE_DIR'] = str(Path.cwd() / 'kernels')\n"
        "from triskele.core.extend import disk_cache\nPath('go').touch()\n"
        "while True:\n for i in range(20): disk_cache.put(disk_cache.make_key(str(i)), bytes([i]) * 300_000)\n"
    )
    killed(program, folder, "go", rng.uniform(0, 0.05))
    before = os.environ.get("TRISKELE_CACHE_DIR")
    os.environ["TRISKELE_CACHE_DIR"] = str(folder / "kernels")
    try:
        found = [disk_cache.get(disk_cache.make_key(str(i))) for i in range(20)]
    finally:
        del os.environ["TRISKELE_CACHE_DIR"]
        if before is not None:
            os.environ["TRISKELE_CACHE_DIR"] = before
    broken = [i for i, data in enumerate(found) if data not in (None, bytes([i]) * 300_000)]
    return f"entries {broken} are broken" if broken else None


FAULTS = [
    Fault("kill -9 during a simulation", "it resumes bit for bit, trajectory and log included", simulation, 100),
    Fault("kill -9 while PPO trains", "it resumes bit for bit", training, 50),
    Fault(
        "kill -9 while a network trains",
        "it resumes bit for bit, history and callbacks included",
        network_training,
        100,
    ),
    Fault("kill -9 while kernels are written to the cache", "no entry is broken", cache_writer, 50),
]
