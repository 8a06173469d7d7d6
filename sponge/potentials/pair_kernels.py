"""Kernels of pair potentials, generated from their function: over cluster pairs within a cut-off, or over all pairs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.kernels import simd
from triskele.core.kernels.njit import template
from triskele.sponge.codegen import Output, expressions, load_module
from triskele.sponge.engine.task import ENERGY, Task
from triskele.sponge.potential import ROW, Plan
from triskele.sponge.potentials import dense_kernels as dense

if TYPE_CHECKING:
    from triskele.sponge.engine.engine import Engine
    from triskele.sponge.potentials.pair_terms import PairPotential

__all__ = ["all_pairs_loop", "plan"]

_CHUNK_PAIRS = 16000  # of all pairs: some 30 us
_MOST_CHUNKS = 32
_CLUSTER_ARGUMENTS = ("chunk, state, shifts, entries, n_entries, pairs, masks, touched, n_touched, window, xs, params, numbers, "
                      "sums, blocks, rows, flags")  # fmt: skip
_DENSE_ARGUMENTS = "chunk, chunks, n, atoms, numbers, masked, blocks, bits, sums, rows, flags"


def plan(potential: PairPotential, engine: Engine) -> Plan:
    """The tasks of a pair potential."""
    return _all_pairs(potential, engine) if potential.cutoff is None else _cluster_pairs(potential, engine)


class _Code:
    """The generated parts that both kinds of kernel share: where parameters come from, and the function's expressions."""

    def __init__(self, potential: PairPotential, dtype: str, width: int, numbers: list[float]):
        self.function, self.dtype, self.width = potential.pair_function(), dtype, width
        self.numbers = list(numbers)  # in front of the tables
        self.columns: list[np.ndarray] = []  # of atoms, as the kernel takes them
        self.tables: list[np.ndarray] = []
        self.mixing: list[str] = []
        typed = None
        self.arguments = ["r", *[f"p{k}" for k in range(len(potential.rules))]]
        for name, (key, rule) in zip(self.arguments[1:], potential.rules.items(), strict=True):
            values = potential.params[key]
            if rule == "same":
                self.numbers.append(float(values))
                self.mixing.append(f"{name} = c[{len(self.numbers) - 1}]")
            elif rule == "table":
                if typed is None:
                    typed = len(self.columns)
                    self.columns.append(potential.types.astype(np.float64))
                start = sum(t.size for t in self.tables)
                self.tables.append(0.5 * (values + values.T))
                place = f"i[{typed}] * {len(values)}.0 + j[{typed}]"
                self.mixing.append(f"{name} = simd.gather(table, simd.convert({place}, np.int32) + np.int32(N_NUMBERS + {start}))")
            else:
                k = len(self.columns)
                self.columns.append({"arithmetic": lambda v: 0.5 * v, "geometric": np.sqrt, "product": np.copy}[rule](values))
                self.mixing.append(f"{name} = i[{k}] {'+' if rule == 'arithmetic' else '*'} j[{k}]")
        if not self.columns:
            self.columns.append(np.zeros(1))

    def number(self, value: float) -> str:
        if value not in self.numbers:
            self.numbers.append(value)
        return f"c[{self.numbers.index(value)}]"

    def body(self, outputs: list[Output]) -> list[str]:
        """Lines of a function of r2, i, j and c that return the outputs."""
        lines, results = expressions(
            self.function, outputs, arguments=self.arguments, known={"1/r": "inverse", "r**2": "r2"}, dtype=self.dtype,
            width=self.width, number=self.number, where=self.function.__name__,
        )  # fmt: skip
        used = set(re.findall(r"\w+", "\n".join([*lines, *results])))
        start = [f"inverse = simd.rsqrt_fast(r2, {1 if self.dtype == 'float32' else 2})", *(["r = r2 * inverse"] if "r" in used else [])]
        mixing = [line for line in self.mixing if line.split(" ")[0] in used]
        return [*start, *mixing, *lines, f"return {', '.join(results)}"]

    def text(self, name: str, lines: list[str]) -> str:
        """Source of such a function."""
        if self.tables:
            lines = [f"table = c[{len(self.numbers)}]", *lines]
        body = "\n".join(f"    {line}" for line in lines).replace("N_NUMBERS", str(len(self.numbers)))
        return f"\n\n@template\ndef {name}(r2, i, j, c):\n{body}\n"

    def constants(self) -> str:
        values = [f"simd.load_splat(numbers, {k}, {self.width})" for k in range(len(self.numbers))]
        return f"\n\n@template\ndef constants(numbers):\n    return ({', '.join([*values, 'numbers'])},)\n"

    def table(self) -> np.ndarray:
        """What `constants` reads."""
        return np.concatenate([self.numbers, *[t.ravel() for t in self.tables]])

    def outputs(self) -> tuple[list[Output], list[Output]]:
        force = Output((self.function.names[0],), ((self.function.names[0], -1),), -1.0)
        return [force], [Output(), force]


def _source(code: _Code, load: str, imports: str, kernels: list[tuple[str, str, str, str]]) -> str:
    force, energy = (code.body(o) for o in code.outputs())
    # both bodies come first: they collect the numbers
    functions = code.text("force", force) + code.text("energy", energy)
    return ("import numpy as np\n\nfrom triskele.core.kernels import simd\n"
            f"from triskele.core.kernels.njit import kernel, template\n{imports}\n" + code.constants() + load + functions
            + "".join(f"\n\n@kernel(nogil=True)\ndef {name}({arguments}):\n    {loop}({arguments}, constants, load, {function})\n"
                      for name, loop, arguments, function in kernels))  # fmt: skip


# --------------------------------------------------------------------------------------------------------- cluster pairs
def _cluster_pairs(potential: PairPotential, engine: Engine) -> Plan:
    from triskele.sponge.potentials.nonbonded_kernels import PairPlan

    code = _Code(potential, "float32" if engine.precision == "mixed" else "float64", 16, [potential.cutoff**2])
    p = len(code.columns)
    loads = ", ".join(f"lanes(params, {4 * p} * cluster + {4 * k})" for k in range(p))
    source = _source(
        code, f"\n\n@template\ndef load(params, cluster, lanes):\n    return ({loads},)\n",
        "from triskele.sponge.potentials.nonbonded_kernels import energy_loop, force_loop",
        [("forces", "force_loop", _CLUSTER_ARGUMENTS, "force"), ("energies", "energy_loop", _CLUSTER_ARGUMENTS, "energy")],
    )  # fmt: skip
    module = load_module(source, code.function.__name__)
    values = np.stack([np.broadcast_to(c, (engine.n,)) for c in code.columns], axis=1)
    return PairPlan(engine, engine.neighbors(potential.cutoff), module.forces, module.energies, values, code.table())


# ------------------------------------------------------------------------------------------------------------ all pairs
@template
def all_pairs_loop(chunk, chunks, n, atoms, numbers, masked, blocks, bits, sums, rows, flags, constants, load, energy):
    """Forces and energy without cut-off, every pair once; arrays as in `dense_kernels.all_pairs`.

    `load(atoms, at, lanes)` returns the parameters of one atom or of eight, `energy(r2, i, j, c)` U and -(dU/dr)/r.
    """
    padded = atoms.shape[1]
    start = chunk * 3 * padded
    for k in range(0, 3 * padded, 8):
        simd.store(sums, start + k, simd.splat(0.0, 8))
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
            at = start + j
            simd.store(sums, at, simd.load(sums, at, 8) - gx)
            simd.store(sums, at + padded, simd.load(sums, at + padded, 8) - gy)
            simd.store(sums, at + 2 * padded, simd.load(sums, at + 2 * padded, 8) - gz)
        sums[chunk, 0, i] += simd.sum(fx)
        sums[chunk, 1, i] += simd.sum(fy)
        sums[chunk, 2, i] += simd.sum(fz)
    if flags[ENERGY] != 0:
        rows[chunk, 0] = simd.sum(total)


def _all_pairs(potential: PairPotential, engine: Engine) -> Plan:
    from triskele.sponge.potentials.nonbonded_plan import _masks as masks

    n = engine.n
    code = _Code(potential, "float64", 8, [])
    loads = ", ".join(f"lanes(atoms, {3 + k}, at)" for k in range(len(code.columns)))
    source = _source(
        code, f"\n\n@template\ndef load(atoms, at, lanes):\n    return ({loads},)\n",
        "from triskele.sponge.potentials.pair_kernels import all_pairs_loop",
        [("forces", "all_pairs_loop", _DENSE_ARGUMENTS, "energy")],
    )  # fmt: skip
    chunks, padded = int(np.clip(n * n // 2 // _CHUNK_PAIRS, 1, _MOST_CHUNKS)), -(-n // 8) * 8
    atoms = np.zeros((3 + len(code.columns), padded))
    for k, column in enumerate(code.columns):
        atoms[3 + k, :n] = column
    sums, rows = np.zeros((chunks, 3, padded)), np.zeros((chunks + engine.atom_chunks, ROW))
    kernel: Any = load_module(source, code.function.__name__).forces
    pairs = Task(kernel, chunks, n, atoms, code.table(), *masks(potential.exclusions, n), sums, rows, engine.flags, chunks=chunks)
    add = Task(dense.add_forces, engine.atom_starts, sums, engine.positions, engine.forces, rows, chunks, engine.flags,
               chunks=engine.atom_chunks)  # fmt: skip
    return Plan(stages=[[Task(dense.pack_atoms, engine.positions, atoms)], [pairs]], reduce=[add], rows=rows)
