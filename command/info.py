"""Print versions, the processor, the cache and which optional packages are installed.

Please send the output along with reports of errors.
"""

from __future__ import annotations

import argparse
import platform
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version

import triskele

from . import CHECKOUT

__all__ = ["arguments", "facts", "optional_packages", "run"]

NOT_FOUND = "-"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no arguments."""


def run(options: argparse.Namespace) -> None:
    """Print one fact a line."""
    for name, value in facts().items():
        print(f"{name:<11}{value}")
    print(
        '\noptional packages, installed by `pip install "triskele[EXTRA]"`, or in a checkout by '
        '`pip install -e ".[EXTRA]"`:'
    )
    for extra, packages in optional_packages().items():
        print(f"  {extra:<9}{', '.join(f'{name} {found or NOT_FOUND}' for name, found in packages.items())}")


def facts() -> dict[str, str]:
    """Return what is worth knowing about this installation and this machine, by name.

    >>> facts()["threads"].isdigit()
    True
    """
    from triskele import core
    from triskele.core.extend import disk_cache, native

    from .cache import size

    files, bytes_ = size()
    target, levels = native.host_target(), native.levels()
    return {
        "triskele": f"{triskele.__version__} ({CHECKOUT or 'installed'})",
        "python": f"{platform.python_version()} ({sys.executable})",
        **{name: version(name) for name in ("numpy", "scipy", "numba", "llvmlite")},
        "system": platform.platform(),
        "processor": f"{_processor()} (LLVM: {target.cpu})",
        "SIMD": _vectors(target.features) + (f" ({levels[0].cpu})" if levels else ""),
        "threads": str(core.get_threads()),
        "cache": f"{disk_cache.folder()}, {files} files, {bytes_ / 1e6:.0f} MB",
        "kernels": "shipped with this package" if disk_cache.has_shipped() else "compiled when they are first used",
    }


def _vectors(features: str) -> str:
    have = features.split(",")
    widths = {"+avx512f": "AVX-512, 512 bits", "+avx2": "AVX2, 256 bits", "+neon": "NEON, 128 bits"}
    return next((name for feature, name in widths.items() if feature in have), "128 bits")


def _processor() -> str:
    """Name of the processor as its maker writes it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = re.findall(r"^model name\s*:\s*(.*)$", file.read(), re.M)
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def optional_packages() -> dict[str, dict[str, str | None]]:
    """Return the packages of each extra with their versions, None for those that are not installed.

    >>> list(optional_packages()["plot"])
    ['matplotlib']
    """
    found: dict[str, dict[str, str | None]] = {}
    for extra, requirement in _requirements():
        name = re.split(r"[^\w.-]", requirement)[0]
        if extra not in ("all", "bench", "test") and name != "triskele":
            found.setdefault(extra, {})[name] = _installed(name)
    return found


def _requirements():
    """(extra, requirement) of all optional requirements: of a checkout as it is now, else as they were installed."""
    if CHECKOUT:
        extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        return [(extra, requirement) for extra, names in extras.items() for requirement in names]
    return [
        (extra[1], line) for line in requires("triskele") or () if (extra := re.search(r"extra == ['\"](\w+)", line))
    ]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
