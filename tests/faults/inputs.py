"""Inputs that nobody made on purpose: damaged files, random programs, random circuits, random force-field files."""

from tests.core import fuzz_programs
from tests.faults.fault import Batch
from tests.fuzz import run as damaged
from tests.fuzz.targets import TARGETS
from tests.quantum import fuzz_circuits as circuits
from tests.sponge.differential import __main__ as differential

__all__ = ["FAULTS"]


def files(count, seed):
    cases, found = damaged.watch(list(TARGETS), seed * count, max(1, count // len(TARGETS)))
    return cases, [f"{f.target}, case {f.case}: {f.what}" for f in found]


def programs(count, seed):
    done, findings, _ = fuzz_programs.run(count, seed * count, show=False)
    return done, [f"program {f['seed']}, {f['form']}: {f['what']}" for f in findings]


def random_circuits(count, seed):
    failures, checks = [], [*circuits.CHECKS, *circuits.PEERS]
    each = max(1, count // len(checks))
    for check in checks:
        for k in range(seed * each, (seed + 1) * each):
            try:
                check(k)
            except Exception as error:  # noqa: BLE001 - whatever it is, it should not be
                failures.append(f"{check.__name__}({k}): {error}")
    return each * len(checks), failures


def force_fields(count, seed):
    tried, failures, sources = 0, [], differential.sources()
    each = max(1, count // len(sources))
    for name, case in sources.items():
        for k in range(seed * each, (seed + 1) * each):
            outcome, reasons = differential.run(name, case, k)
            tried += 1
            if outcome == "differs":
                failures.append(f"{name} {k}: {'; '.join(reasons)}")
    return tried, failures


FAULTS = [
    Batch("damaged files of every format", "a result, or a documented error that names the file", files, 100_000),
    Batch("random NumPy programs", "NumPy, eager transforms, jit and vmap agree", programs, 20_000),
    Batch("random circuits", "simulators, gradients and formats agree with plain NumPy", random_circuits, 2_000),
    Batch(
        "random force-field files",
        "energies and forces are those of OpenMM and GROMACS, or the file is refused by name",
        force_fields,
        2_000,
    ),
]
