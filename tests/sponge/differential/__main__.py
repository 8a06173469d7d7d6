"""Run the differential tests: ``python -m tests.sponge.differential --count 200 [--seed 0] [--only prmtop
gromacs]``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from tests.sponge.differential.compare import Refused
from triskele import core


def sources() -> dict[str, Any]:
    """The functions ``case(seed, folder)`` of the modules of this package, by name of the module; those that lack a
    program are left out.
    """
    package = Path(__file__).parent
    names = [module.name for module in iter_modules([str(package)]) if module.name not in ("__main__", "compare")]
    modules = {name: import_module(f"tests.sponge.differential.{name}") for name in names}
    return {name: m.case for name, m in modules.items() if hasattr(m, "case") and getattr(m, "available", True)}


def run(name: str, case: Any, seed: int) -> tuple[str, list[str]]:
    """The outcome of one case, "agrees", "refused" or "differs", and the sentences that say why."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = case(seed, Path(folder))
        except Refused as reason:
            return "refused", [str(reason)]
        except Exception as error:  # noqa: BLE001  an error is a difference: the program goes on with the next case
            return "differs", [f"{type(error).__name__}: {error}"]
    return ("differs", found) if found else ("agrees", [])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sponge.differential", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="cases of each source (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case (default 0)")
    parser.add_argument("--only", nargs="*", default=None, help="names of sources (default all)")
    options = parser.parse_args()
    core.set_threads(1)
    failed = 0
    for name, case in sources().items():
        if options.only and name not in options.only:
            continue
        start, counts = time.perf_counter(), {"agrees": 0, "refused": 0, "differs": 0}
        for seed in range(options.seed, options.seed + options.count):
            outcome, reasons = run(name, case, seed)
            counts[outcome] += 1
            if outcome == "differs":
                print(f"{name} {seed}: " + "; ".join(reasons), flush=True)
        failed += counts["differs"]
        print(
            f"{name}: {options.count} cases, {counts['agrees']} agree, {counts['refused']} refused by name, "
            f"{counts['differs']} differ ({time.perf_counter() - start:.0f} s)",
            flush=True,
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
