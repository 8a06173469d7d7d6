"""Kernels of pair potentials, generated from their function: over cluster pairs within a cut-off, or over all pairs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task, load_module, simd, template

from ...codegen.simd_source import Output, expressions
from ...engine.flags import ENERGY, N_FLAGS
from ...engine.plan import ROW, Plan
from ...engine.program import Phase, Program
from ...neighbors import shared_list
from . import dense as dense
from .source import CLUSTER_ARGUMENTS, function_source, module_source

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .terms import PairPotential

__all__ = ["all_pairs_loop", "gradients", "plan"]

_CHUNK_PAIRS = 16000  # of all pairs: some 30 us
_MOST_CHUNKS = 32
_DENSE_ARGUMENTS = "chunk, chunks, n, atoms, numbers, masked, blocks, bits, sums, rows, flags"


def plan(potential: PairPotential, engine: Engine) -> Plan:
    """The tasks of a pair potential."""
    return _all_pairs(potential, engine) if potential.cutoff is None else _cluster_pairs(potential, engine)


class _Code:
    """The generated parts that both kinds of kernel share: where parameters come from, and the function's
    expressions.
    """

    def __init__(self, potential: PairPotential, dtype: str, width: int, numbers: list[float]):
        self.function, rules, given = potential.kernel_form()
        self.dtype, self.width = dtype, width
        self.numbers = list(numbers)  # in front of the tables
        self.columns: list[np.ndarray] = []  # of atoms, as the kernel takes them
        self.tables: list[np.ndarray] = []
        self.mixing: list[str] = []
        typed = None
        self.arguments = ["r", *[f"p{k}" for k in range(len(rules))]]
        for name, (key, rule) in zip(self.arguments[1:], rules.items(), strict=True):
            values = given[key]
            if rule == "same":
                self.numbers.append(float(values))
                self.mixing.append(f"{name} = c[{len(self.numbers) - 1}]")
            elif rule == "table":
                assert potential.types is not None
                if typed is None:
                    typed = len(self.columns)
                    self.columns.append(potential.types.astype(np.float64))
                start = sum(t.size for t in self.tables)
                self.tables.append(0.5 * (values + values.T))
                place = f"i[{typed}] * {len(values)}.0 + j[{typed}]"
                self.mixing.append(
                    f"{name} = simd.gather(table, simd.convert({place}, np.int32) + np.int32(N_NUMBERS + {start}))"
                )
            else:
                k = len(self.columns)
                self.columns.append(
                    0.5 * values
                    if rule == "arithmetic"
                    else np.sqrt(values)
                    if rule == "geometric"
                    else np.copy(values)
                )
                self.mixing.append(f"{name} = i[{k}] {'+' if rule == 'arithmetic' else '*'} j[{k}]")
        if not self.columns:
            self.columns.append(np.zeros(1))

    def number(self, value: float) -> str:
        if value not in self.numbers:
            self.numbers.append(value)
        return f"c[{self.numbers.index(value)}]"

    def body(self, outputs: list[Output]) -> tuple[list[str], list[str]]:
        """Lines of a function of r2, i, j and c, and the names of the outputs."""
        known = {"1/r": "inverse", "r**2": "r2", "1/r**2": "square"}
        lines, results = expressions(
            self.function,
            outputs,
            arguments=self.arguments,
            known=known,
            dtype=self.dtype,
            width=self.width,
            number=self.number,
            where=self.function.__name__,
        )
        used = set(re.findall(r"\w+", "\n".join([*lines, *results])))
        if "r" in used:
            used.add("inverse")
        first = {
            "inverse": f"inverse = {self._estimate('rsqrt')}",
            "square": f"square = {self._estimate('rcp')}",
            "r": "r = r2 * inverse",
        } | {line.split(" ")[0]: line for line in self.mixing}
        return [*(line for name, line in first.items() if name in used), *lines], results

    def _estimate(self, name: str) -> str:
        if self.dtype == "float32" or self.width == 8:
            return f"simd.{name}_fast(r2, {1 if self.dtype == 'float32' else 2})"
        # the processor's estimate is for vectors of 512 bits
        return f"simd.concat(simd.{name}_fast(simd.low(r2), 2), simd.{name}_fast(simd.high(r2), 2))"

    def text(self, name: str, lines: list[str], results: str) -> str:
        """Source of such a function; to be called when all numbers are known."""
        return function_source(name, [*lines, f"return {results}"], len(self.numbers), bool(self.tables))

    def module(
        self,
        imports: str,
        load: str,
        functions: str,
        kernels: list[tuple[str, str, str]],
        arguments: str = CLUSTER_ARGUMENTS,
    ) -> Any:
        """The module with `functions`, which are written first, since they collect the numbers."""
        source = module_source(imports, len(self.numbers), self.width, load, functions, kernels, arguments)
        return load_module(source, self.function.__name__)

    def table(self) -> np.ndarray:
        """The parameters that `constants` uses."""
        return np.concatenate([self.numbers, *[t.ravel() for t in self.tables]])


def _functions(code: _Code) -> str:
    """Sources of `force` and `energy`."""
    r = code.function.names[0]
    slope = Output((r,), ((r, -1),), -1.0)
    bodies = [("force", code.body([slope])), ("energy", code.body([Output(), slope]))]
    return "".join(code.text(name, lines, ", ".join(results)) for name, (lines, results) in bodies)


# -------------------------------------------------------------------------------------------------------- cluster pairs
def _cluster_code(potential: PairPotential, engine: Engine) -> tuple[_Code, str]:
    assert potential.cutoff is not None
    code = _Code(potential, "float32" if engine.precision == "mixed" else "float64", 16, [potential.cutoff**2])
    p = len(code.columns)
    loads = ", ".join(f"lanes(params, {4 * p} * cluster + {4 * k})" for k in range(p))
    return code, f"def load(params, cluster, lanes):\n    return ({loads},)"


def _cluster_pairs(potential: PairPotential, engine: Engine) -> Plan:
    from .loops import PairPlan

    code, load = _cluster_code(potential, engine)
    module = code.module(
        "from triskele.sponge.potentials.pairs.loops import energy_loop, force_energy_loop, force_loop",
        load,
        _functions(code),
        [
            ("forces", "force_loop", "force, force"),
            ("energies", "energy_loop", "energy"),
            ("both", "force_energy_loop", "energy, energy"),
        ],
    )
    values = np.stack([np.broadcast_to(c, (engine.n,)) for c in code.columns], axis=1)
    return PairPlan(
        engine, shared_list(engine, potential.cutoff), module.forces, module.energies, values, code.table(), module.both
    )


def gradients(potential: PairPotential, engine: Engine) -> dict[str, np.ndarray] | None:
    """Derivatives by all parameters over the pairs that `engine` has last computed; None without cut-off, for tables
    and for coefficients that are made of the parameters.

    Three parameters at a time take the place of the three components of forces.
    """
    own = potential.rules.keys() == potential.params.keys()
    if potential.cutoff is None or "table" in potential.rules.values() or not own:
        return None
    code, load = _cluster_code(potential, engine)
    names, functions, kernels = list(potential.rules), "", []
    columns = iter(range(len(code.columns)))
    column = {name: None if rule == "same" else next(columns) for name, rule in potential.rules.items()}
    for first in range(0, len(names), 3):
        group = names[first : first + 3]
        lines, results = code.body([Output((n,)) for n in group])
        mine, other = [], []
        for name, slope in zip(group, results, strict=True):
            k = column[name]
            added = potential.rules[name] in ("same", "arithmetic")
            mine.append(slope if added else f"{slope} * j[{k}]")
            other.append("zero" if k is None else slope if added else f"{slope} * i[{k}]")
        zeros = ["zero"] * (3 - len(group))
        lines.append(f"zero = simd.splat(np.{code.dtype}(0), {code.width})")
        functions += code.text(f"gradient{first}", lines, f"({', '.join(mine + zeros)}), ({', '.join(other + zeros)})")
        kernels.append((f"parameters{first}", "gradient_loop", f"gradient{first}"))
    module = code.module("from triskele.sponge.potentials.pairs.loops import gradient_loop", load, functions, kernels)
    numbers = code.table().astype(shared_list(engine, potential.cutoff).real)
    found = {}
    for first in range(0, len(names), 3):
        rows = _sum_over_pairs(potential, engine, getattr(module, f"parameters{first}"), numbers)
        for name, row in zip(names[first : first + 3], rows, strict=False):
            found[name] = _by_values(potential, name, row)
    return found


def _sum_over_pairs(potential, engine, kernel, numbers):
    """Three rows [n] of a kernel made of `gradient_loop`, with the arrays of the potential's plan."""
    plan, first, second, results = engine.plans[potential.name], [], [], []
    # of each list: forces and energies; sum over chunks
    for force, add in zip(plan.stages[0][::2], plan.stages[1], strict=True):
        args, result = list(force.args), np.zeros_like(add.args[-1])
        args[CLUSTER_ARGUMENTS.split(", ").index("numbers") - 1] = numbers
        first.append(Task(kernel, *args, chunks=force.chunks))
        second.append(Task(add.kernel, *add.args[:-1], result, chunks=add.chunks))
        results.append(result)
    Program([Phase(first, name="parameters"), Phase(second, name="sum")], np.zeros(N_FLAGS, np.int64)).run(1)
    slots = shared_list(engine, potential.cutoff).slots.astype(np.int64)
    at = 12 * (slots // 4) + slots % 4
    return [sum(r[at + 4 * k] for r in results) for k in range(3)]


def _by_values(potential, name, row):
    """From derivatives by the kernel's columns to those by the parameter."""
    rule, values = potential.rules[name], potential.params[name]
    if rule == "same":
        return np.sum(row)
    if rule == "geometric":
        return np.where(values > 0, 0.5 * row / np.sqrt(np.where(values > 0, values, 1.0)), 0.0)
    return 0.5 * row if rule == "arithmetic" else row


# ------------------------------------------------------------------------------------------------------------ all pairs
@template
def all_pairs_loop(chunk, chunks, n, atoms, numbers, masked, blocks, bits, sums, rows, flags, constants, load, energy):
    """Forces and energy without cut-off, every pair once; arrays as in `dense.all_pairs`.

    `load(atoms, at, lanes)` returns the parameters of one atom or of eight, `energy(r2, i, j, c)` U and -(dU/dr)/r.
    """
    padded, start = atoms.shape[1], dense.clear_sums(sums, chunk)
    c = constants(numbers)
    total = simd.splat(0.0, 8)
    for i in range(chunk, n, chunks):
        x, y, z = dense.one(atoms, 0, i), dense.one(atoms, 1, i), dense.one(atoms, 2, i)
        own = load(atoms, i, dense.one)
        fx = simd.splat(0.0, 8)
        fy, fz = fx, fx
        entry, last = masked[i], masked[i + 1]
        for j in range(i & -8, padded, 8):
            dx, dy, dz = x - dense.eight(atoms, 0, j), y - dense.eight(atoms, 1, j), z - dense.eight(atoms, 2, j)
            real = (simd.iota(8) > np.int32(i - j)) & (simd.iota(8) < np.int32(n - j))
            if entry < last and blocks[entry] == j:
                real = real & ~simd.from_bits(bits[entry], 8)
                entry += 1
            r2 = simd.select(real, dx * dx + dy * dy + dz * dz, 1.0)
            u, f = energy(r2, own, load(atoms, j, dense.eight), c)
            total = total + simd.select(real, u, 0.0)
            f = simd.select(real, f, 0.0)
            gx, gy, gz = f * dx, f * dy, f * dz
            fx, fy, fz = fx + gx, fy + gy, fz + gz
            dense.subtract_eight(sums, start + j, padded, gx, gy, gz)
        dense.add_one(sums, chunk, i, fx, fy, fz)
    if flags[ENERGY] != 0:
        rows[chunk, 0] = simd.sum(total)


def _all_pairs(potential: PairPotential, engine: Engine) -> Plan:
    from .dense import masks

    n = engine.n
    code = _Code(potential, "float64", 8, [])
    loads = ", ".join(f"lanes(atoms, {3 + k}, at)" for k in range(len(code.columns)))
    kernel = code.module(
        "from triskele.sponge.potentials.pairs.kernels import all_pairs_loop",
        f"def load(atoms, at, lanes):\n    return ({loads},)",
        _functions(code),
        [("forces", "all_pairs_loop", "energy")],
        _DENSE_ARGUMENTS,
    ).forces
    chunks, padded = int(np.clip(n * n // 2 // _CHUNK_PAIRS, 1, _MOST_CHUNKS)), -(-n // 8) * 8
    atoms = np.zeros((3 + len(code.columns), padded))
    for k, column in enumerate(code.columns):
        atoms[3 + k, :n] = column
    sums, rows = np.zeros((chunks, 3, padded)), np.zeros((chunks + engine.atom_chunks, ROW))
    pairs = Task(
        kernel, chunks, n, atoms, code.table(), *masks(potential.exclusions, n), sums, rows, engine.flags, chunks=chunks
    )
    add = Task(
        dense.add_forces,
        engine.atom_starts,
        sums,
        engine.positions,
        engine.forces,
        rows,
        chunks,
        engine.flags,
        chunks=engine.atom_chunks,
    )
    return Plan(stages=[[Task(dense.pack_atoms, engine.positions, atoms)], [pairs]], reduce=[add], rows=rows)
