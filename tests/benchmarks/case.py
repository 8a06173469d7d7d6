"""A benchmark case: data that every tool gets, and one program per tool that computes the same numbers from it."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.benchmarks.tools import TOOLS, leaves

CASES: dict[str, "Case"] = {}


@dataclass
class Case:
    """One row of the table.

    Parameters
    ----------
    name : str
        How `--case` finds it.
    data : callable
        Returns a tuple of NumPy arrays (or trees of them), the same in every process.
    dtype : str
        float32 or float64: precision of the data and of the peak that `flops` is divided by.
    tolerance : float
        Largest difference between two tools, relative to the largest entry of each output.
    flops, bytes : float
        What the computation needs at least: the limit is the slower of the two at the machine's measured peak.
        A transcendental function counts 20 flops.
    """

    name: str
    data: Callable
    dtype: str = "float64"
    tolerance: float = 1e-9
    flops: float = 0.0
    bytes: float = 0.0
    builders: dict[str, Callable] = field(default_factory=dict)

    def __post_init__(self):
        if self.name in CASES:
            raise ValueError(f"Case: names must be unique, got {self.name!r} twice")
        CASES[self.name] = self

    def program(self, *tools):
        """Register `function(tool) -> f(*data)`: one source for all tools that follow NumPy's names."""

        def register(function):
            for name in tools:
                self.builders[name] = lambda *data, tool=TOOLS[name]: tool.prepare(function, data)
            return function

        return register

    def by_hand(self, tool):
        """Register `function(*data) -> run`, where `run()` does the work once and returns the outputs."""

        def register(function):
            self.builders[tool] = function
            return function

        return register


def load(field_name):
    """Import every module of `tests/benchmarks/<field>/cases`; each registers its cases on import."""
    package = importlib.import_module(f"tests.benchmarks.{field_name}.cases")
    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")
    return CASES


class Program:
    """What `process` needs of a tool: runs the program that a registered case of the core has for it."""

    def __init__(self, tool):
        self.tool, self.modules, self.lazy = tool, TOOLS[tool].modules, getattr(TOOLS[tool], "lazy", ())

    def prepare(self, name, threads):
        if self.tool == "torch":
            import torch

            torch.set_num_threads(threads)
        if self.tool == "triskele":
            from triskele import core

            core.set_threads(threads)
        case = load("core")[name]
        return case.builders[self.tool](*case.data()), leaves
