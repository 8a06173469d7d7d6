"""The wheel: the command, the examples and all packages work where only it is installed."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import triskele

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A function that runs a program of an environment with the wheel, in an empty folder; it returns the output."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, ROOT], check=True, timeout=300
    )
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel], check=True, timeout=300)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])  # NumPy and others, from here
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    (folder / "empty").mkdir()

    def run(program, *arguments):
        return subprocess.run(
            [folder / "venv" / "bin" / program, *arguments],
            env=environment,
            cwd=folder / "empty",
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        ).stdout

    return run


@pytest.mark.slow
def test_all_packages_come_from_the_wheel(installed):
    code = (
        "import triskele; from triskele import core, sponge, quantum, reinforce, command\n"
        "print(triskele.__version__, *sorted({m.__file__.split('site-packages')[0] for m in "
        "(triskele, core, sponge, quantum, reinforce, command)}))"
    )
    version, folder = installed("python", "-c", code).split()
    assert version == triskele.__version__
    assert not Path(folder).is_relative_to(ROOT) and "venv" in folder


def test_the_command_is_installed(installed):
    assert installed("triskele", "--version") == f"triskele {triskele.__version__}\n"
    info = installed("python", "-m", "triskele", "info")
    assert f"triskele   {triskele.__version__} (installed)" in info and "matplotlib" in info


def test_examples_and_the_template_are_in_the_wheel(installed):
    assert "  vqe_lih " in installed("triskele", "examples", "list")
    assert installed("triskele", "examples", "copy", "fit_ode") == "fit_ode.py\ndata/hare_lynx.csv\n"
    assert installed("triskele", "md", "template").startswith("md.toml\n")


def test_the_benchmarks_need_a_checkout(installed):
    with pytest.raises(subprocess.CalledProcessError) as failed:
        installed("triskele", "bench", "core")
    assert failed.value.returncode == 2
    assert "run `triskele bench` in a checkout" in failed.value.stderr
