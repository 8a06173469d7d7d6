"""`python -m tests.faults [--share 1.0] [--only WORD] [--seed 0] [--write]`: a table of faults, how many were tried and
survived.

With `--write` the table goes into tests/FAULTS.md as well. `--share 0.1` tries a tenth of a full run.
"""

import argparse
import importlib
import pkgutil
import sys
from datetime import date
from pathlib import Path

import tests.faults
from tests.faults.fault import attempt

PLACE = Path(__file__).parents[1] / "FAULTS.md"
HEAD = """# Faults tried on purpose

`python -m tests.faults --write` made this table on {day}. A trial is survived if what the second column promises held.

| fault | what must hold | tried | survived |
| --- | --- | ---: | ---: |
"""


def faults():
    """All faults of the modules of this folder."""
    modules = [
        m.name
        for m in pkgutil.iter_modules(tests.faults.__path__)
        if not m.name.startswith(("__", "test_")) and m.name != "fault"
    ]
    return [
        fault for name in modules for fault in getattr(importlib.import_module(f"tests.faults.{name}"), "FAULTS", [])
    ]


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the trials of a full run")
    parser.add_argument("--only", default="", help="a word of the fault's name")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write tests/FAULTS.md")
    options = parser.parse_args()
    reports = []
    for fault in faults():
        if options.only in fault.name:
            reports.append(attempt(fault, max(1, round(fault.trials * options.share)), options.seed))
            print(reports[-1].row, flush=True)
    for failure in (f for r in reports for f in r.failures[:5]):
        print(failure, file=sys.stderr)
    if options.write:
        PLACE.write_text(HEAD.format(day=date.today()) + "".join(f"{r.row}\n" for r in reports))
    return any(r.failures for r in reports)


if __name__ == "__main__":
    sys.exit(main())
