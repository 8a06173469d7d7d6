"""Random NumPy programs: the source of a function, grown statement by statement while NumPy runs it; what NumPy refuses
is dropped.
"""

from __future__ import annotations

import contextlib
import linecache
import random
import warnings

import numpy as np

LARGEST = 1e4  # programs whose values grow beyond are cut short: their last digits mean nothing
DTYPES = (
    ["float64"] * 5
    + ["float32"] * 2
    + ["int64"] * 2
    + ["bool", "int8", "uint8", "int32", "float16", "complex128", "complex64"]
)
SHAPES = [(), (1,), (2,), (3,), (4,), (2, 3), (3, 2), (1, 3), (3, 1), (2, 2), (3, 3), (2, 1, 3), (2, 3, 2), (0,),
          (0, 3)]  # fmt: skip
EXACT_UNARY = [
    "np.negative({})", "np.abs({})", "{} * 1", "+{}", "np.square({})", "np.conjugate({})", "{}.conj()", "np.real({})",
    "{}.imag", "np.positive({})", "np.floor({})", "np.ceil({})", "np.rint({})", "np.sign({})", "np.isnan({})",
    "np.isfinite({})", "np.logical_not({})", "~{}", "{} > 0", "{} == 1", "{} ** 2", "{} ** 3", "np.sqrt({})",
    "np.log({})", "np.signbit({})", "np.round({})", "np.trunc({})", "np.nan_to_num({})",
]  # fmt: skip
SMOOTH_UNARY = [
    "np.sin({})",
    "np.cos({})",
    "np.tanh({})",
    "np.exp(-np.square({}))",
    "np.arctan({})",
    "1 / (2 + np.square({}))",
    "np.log1p(np.square({}))",
    "np.sqrt(1 + {} * {})",
    "np.sinh({} / 4)",
    "np.expm1({} / 4)",
    "np.square({})",
    "{} ** 3",
    "-{}",
    "np.arcsinh({})",
]
EXACT_BINARY = [
    "{} + {}", "{} - {}", "{} * {}", "np.maximum({}, {})", "np.minimum({}, {})", "{} < {}", "{} >= {}", "{} != {}",
    "np.where({} > 0, {}, 1)", "np.add({}, {})", "np.logical_and({}, {})", "np.logical_xor({}, {})", "{} // {}",
    "{} % {}", "np.copysign({}, {})", "{} & {}", "{} | {}", "{} ^ {}", "np.fmax({}, {})", "np.equal({}, {})",
    "np.multiply({}, {})", "np.floor_divide({}, {})", "np.fmod({}, {})", "{} ** ({} > 0)", "np.heaviside({}, {})",
]  # fmt: skip
SMOOTH_BINARY = [
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "{} / (3 + np.square({}))",
    "np.hypot(1 + np.square({}), {})",
    "np.arctan2({}, 2 + np.square({}))",
    "np.logaddexp({}, {})",
    "np.sin({}) * {}",
    "(2 + np.square({})) ** (0.5 * {})",
]
REDUCTIONS = [
    "np.sum({}, axis={a})",
    "np.sum({})",
    "{}.sum(axis={a}, keepdims=True)",
    "np.mean({}, axis={a})",
    "{}.mean()",
    "np.cumsum({}, axis={a})",
    "np.prod({}, axis={a})",
    "np.var({}, axis={a})",
    "np.std({})",
    "np.dot({}, {}.T)",
    "np.linalg.norm({})",
]
EXACT_REDUCTIONS = [
    "np.max({}, axis={a})",
    "{}.min()",
    "np.any({})",
    "np.all({}, axis={a})",
    "np.argmax({}, axis={a})",
    "np.argmin({})",
    "np.sort({}, axis={a})",
    "np.argsort({}, axis={a}, kind='stable')",
    "np.count_nonzero({}, axis={a})",
    "np.median({})",
    "np.ptp({}, axis={a})",
    "np.cumprod({}, axis={a})",
    "np.maximum.accumulate({}, axis={a})",
    "np.unique({}).size * 0 + 1",
]
VIEWS = [
    "{}.T", "np.transpose({})", "np.swapaxes({}, 0, {a})", "np.moveaxis({}, 0, {a})", "{}.reshape(-1)",
    "np.reshape({}, {s})", "{}.ravel()", "np.ravel({}, 'F')", "np.squeeze({})", "np.expand_dims({}, {a})",
    "np.atleast_2d({})", "np.atleast_1d({})", "{}[{i}]", "{}[{i}]", "{}[{i}]", "np.flip({}, {a})", "np.flipud({})",
    "np.rot90({})", "np.split({}, [1], axis={a})[0]", "np.array_split({}, 2, axis={a})[1]",
    "np.unstack({}, axis={a})[0]", "np.diagonal({})", "{}.real", "{}.imag", "np.broadcast_to({}, (2, *{}.shape))",
    "list({})[0]", "np.asarray({})", "{}[...]", "{}.swapaxes(0, {a})", "np.rollaxis({}, {a})", "{}.squeeze()",
    "{}.astype({}.dtype, copy=False)", "{}.transpose()", "{}.conj()",
]  # fmt: skip
COPIES = [
    "{}.copy()", "np.copy({})", "{}.flatten()", "np.array({})", "np.concatenate([{}, {}], axis={a})",
    "np.stack([{}, {}])", "np.tile({}, 2)", "np.repeat({}, 2, axis={a})", "np.roll({}, 1)", "np.roll({}, -1, axis={a})",
    "np.take({}, [0, -1], axis={a})", "{}[[0, -1]]", "{}[..., [0]]", "np.pad({}, 1)", "np.tril({})", "np.triu({}, 1)",
    "np.diag({})", "np.zeros_like({})", "np.ones_like({})", "np.full_like({}, 3)", "np.where({} > 0, {}, 0)",
    "np.clip({}, -1, 1)", "np.hstack([{}, {}])", "np.outer({}, {})", "np.append({}, {})", "np.delete({}, 0, axis={a})",
    "{}.astype('{d}')", "np.select([{} > 0], [{}], 1)", "np.diff({}, axis={a})", "np.meshgrid({}, {})[0]",
    "np.einsum('i,j->ij', {}, {})", "np.vstack([{}, {}])", "np.stack([{}, {}], axis=-1)", "np.array([{}, {}])",
    "np.full(2, {})", "np.kron({}, {})", "np.trace({})", "np.ptp({})",
    "np.interp({}, [-2.0, 0.0, 2.0], [1.0, 0.0, 3.0])", "np.zeros({}.shape)", "np.ones((2, 3), '{d}')",
]  # fmt: skip
WRITES = [
    "{v}[{i}] = {w}", "{v}[{i}] += {w}", "{v}[{i}] *= 2", "{v} += {w}", "{v} *= 2", "{v} -= {w}", "{v}.T[{i}] = {w}",
    "{v}.reshape(-1)[{i}] = {w}", "{v}.ravel()[{i}] += 1", "np.swapaxes({v}, 0, -1)[{i}] -= {w}",
    "np.squeeze({v})[{i}] = {w}", "np.split({v}, [1])[0][...] = {w}", "{v}[{i}][{j}] = {w}", "{v}.T[{i}] *= -1",
    "np.flip({v})[{i}] = {w}", "{v}.fill(2)", "{v}.flat[{k}] = 3", "{v}[[0, -1]] = {w}", "{v}[{v} > 0] = 1",
    "np.copyto({v}, {w})", "np.add({v}, {w}, out={v})", "np.multiply({v}, 2, out={v})", "{v}.sort()",
    "np.put({v}, [0], {w})", "np.fill_diagonal({v}, 2)", "{v}.real = {w}", "{v}.imag[...] = 1", "{v}.real[{i}] += 1",
    "np.moveaxis({v}, 0, -1)[{i}] = {w}", "np.add.at({v}, [0, 0], 1)", "np.expand_dims({v}, 0)[0, {i}] = {w}",
    "np.atleast_2d({v})[0] += 1", "np.asarray({v})[{i}] = {w}", "{v}[...] = {w}", "{v}[()] = {w}", "{v}[()] += 1",
    "{v} = {v}[{i}]; {v} += 1", "np.maximum({v}, {w}, out={v})", "{v}[{i}] = {v}[{j}]", "{v}.reshape(-1)[::2] *= 3",
    "np.diagonal({v})[...] = 1",
]  # fmt: skip
BLOCKS = [
    "for k in range({v}.shape[0]):\n        {v}[k] = {v}[k] * 2 + k",
    "for row in {v}:\n        row += 1",
    "if {v}.shape[0] > 2:\n        {v} = {v}[1:]\n    else:\n        {v} = {v} * 2",
    "if {v}.ndim == 2:\n        {v} = {v}.T\n        {v}[0] += 1",
    "while {v}.ndim:\n        {v} = {v}[0]",
    "for k, row in enumerate({v}.T):\n        row[...] = row * (k + 1)",
    "{v} = sum([row for row in {v}])",
]
INDICES = ["0", "-1", "1", "1:", ":1", "::-1", "::2", "...", "..., 0", ":, 0", ":, 1:", "0, ...", "None", "0, 0",
           "1:, ::-1", ":, None", "-1, 1:", "..., ::2", "0:0", "[1, 0]", "..., None, :"]  # fmt: skip
WRITTEN = ["1", "-2.5", "True", "0", "2"]


class Grown:
    """A program while it grows: NumPy's values of its variables, and which of them are computed without rounding."""

    def __init__(self, seed, smooth=False):
        self.r = random.Random(seed)
        self.smooth = smooth
        self.statements: list[str] = []
        self.inputs = []
        self.env = {"np": np}
        self.exact: dict[str, bool] = {}
        rng = np.random.default_rng(seed)
        for k in range(self.r.randint(1, 3)):
            shape = self.r.choice(SHAPES)
            dtype = np.dtype("float64" if smooth else self.r.choice(DTYPES))
            # a scalar rather than an array without dimensions
            self.inputs.append((f"x{k}", random_array(rng, shape, dtype, smooth)[()]))
        for name, x in self.inputs:
            self.env[name] = x.copy()
            self.exact[name] = not smooth
        wanted, tries = self.r.randint(2, 9), 0
        while len(self.statements) < wanted and tries < 60:
            tries += 1
            self.grow()

    def names(self):
        return [n for n in self.env if n != "np"]

    def pick(self, exact=False):
        names = [n for n in self.names() if not exact or self.exact[n]] or None
        return None if names is None else self.r.choice(names[-4:] if self.r.random() < 0.7 else names)

    def fill(self, template, operand):
        r = self.r
        out = template
        while "{}" in out:
            out = out.replace("{}", operand(), 1)
        x = self.env.get(operand.last) if operand.last else None
        rank = getattr(x, "ndim", 1)
        return (
            out.replace("{a}", str(r.randint(-1, max(0, rank - 1))))
            .replace("{i}", r.choice(INDICES))
            .replace("{s}", r.choice(["(-1, 1)", "(3, -1)", "(2, -1)", "(1, -1)", "(-1,)", "(-1, 2)"]))
            .replace("{d}", r.choice(DTYPES))
        )

    def grow(self):
        r, kind = self.r, self.r.random()

        def operand(same=[None]):  # noqa: B006
            if same[0] is None or r.random() < 0.5:
                same[0] = self.pick(needs_exact)
            operand.last = same[0]
            return same[0] or "none"

        operand.last = None
        needs_exact, name, keeps = False, f"v{len(self.statements)}", True
        if kind < 0.34:
            return self.write()
        if kind < 0.5:
            template = r.choice(VIEWS)
        elif kind < 0.62:
            template = r.choice(COPIES)
            needs_exact = "> 0" in template or "astype" in template or "clip" in template or "interp" in template
            if self.smooth and (needs_exact or "{d}" in template):
                return None
        elif kind < 0.7:
            template = r.choice(REDUCTIONS)
            keeps = False
        elif kind < 0.76 and not self.smooth:
            template, needs_exact = r.choice(EXACT_REDUCTIONS), True
        elif kind < 0.88 and not self.smooth:
            template, needs_exact = r.choice(EXACT_UNARY + EXACT_BINARY), True
        else:
            template, keeps = r.choice(SMOOTH_UNARY + SMOOTH_BINARY), False
        text = self.fill(template, operand)
        if "none" in text or ("np.sqrt" in text and not self.smooth) or "np.log(" in text:
            keeps = False
        if self.attempt(f"{name} = {text}"):
            self.exact[name] = (
                keeps
                and all(self.exact[n] for n in self.names() if n != name and n in text)
                and is_exact(self.env[name])
            )
        return None

    def write(self):
        r = self.r
        # some functions return arrays without dimensions where others return scalars: both count as equal
        targets = [
            n
            for n in self.names()
            if n[0] == "v"
            and isinstance(self.env[n], np.ndarray)
            and (self.env[n].ndim or self.env[n].base is not None)
        ]
        if not targets:
            source = self.pick()
            name = f"v{len(self.statements)}"
            if self.attempt(
                f"{name} = {r.choice(['{}.copy()', '{} * 1', 'np.zeros_like({})', 'np.array({})']).format(source)}"
            ):
                self.exact[name] = self.exact[source] and is_exact(self.env[name])
            return
        v = r.choice(targets)
        template = r.choice(BLOCKS) if r.random() < 0.12 else r.choice(WRITES)
        w = r.choice(WRITTEN) if r.random() < 0.4 else self.pick()
        rounded = ("> 0" in template or "sort" in template or "maximum" in template) and not (
            self.exact[v] and self.exact.get(w, True)
        )
        if not self.env[v].flags.writeable and ".at(" in template:  # which does not ask
            return
        if rounded or (self.smooth and ("sort" in template or "> 0" in template or "maximum" in template)):
            return
        text = (
            template.replace("{v}", v)
            .replace("{w}", w)
            .replace("{i}", r.choice(INDICES))
            .replace("{j}", r.choice(INDICES))
            .replace("{k}", str(r.randint(0, 2)))
        )
        if self.attempt(text):
            exact = all(self.exact[n] for n in self.names() if n in text)
            for n in self.names():  # what is written reaches all that share memory
                if not exact:
                    self.exact[n] = self.exact[n] and not isinstance(self.env[n], np.ndarray)
                self.exact[n] = self.exact[n] and is_exact(self.env[n])

    def attempt(self, text):
        before = {k: v for k, v in self.env.items() if k != "np"}
        copies = {k: np.array(v, copy=True) for k, v in before.items()}
        try:
            with defined_casts():
                exec(text.replace("\n    ", "\n"), self.env)
        except Exception:  # noqa: BLE001  NumPy does not take this statement
            ok = False
        else:
            ok = all(fits(v) for n, v in self.env.items() if n not in ("np", "k", "row", "__builtins__"))
        for n in ("k", "row", "__builtins__"):
            self.env.pop(n, None)
        if ok:
            self.statements.append(text)
            for n in self.names():
                self.exact.setdefault(n, False)
            return True
        for n in self.names():
            if n not in before:
                del self.env[n]
        self.env.update(before)
        for k, v in before.items():
            if isinstance(v, np.ndarray) and v.flags.writeable:
                v[...] = copies[k]
        return False


@contextlib.contextmanager
def defined_casts():
    """Without warnings, but where a number is cast to an integer that cannot hold it: C leaves open what comes out."""
    with warnings.catch_warnings(), np.errstate(all="ignore", invalid="warn"):
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="invalid value encountered in cast")
        yield


def random_array(rng, shape, dtype, smooth=False):
    """Quarters between -2 and 2, which NumPy's arithmetic does not round; normal numbers for smooth programs."""
    if smooth:
        return rng.normal(size=shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -4, 5, shape).astype(dtype)
    x = rng.integers(-8, 9, shape) / 4
    x = np.asarray(x + 1j * rng.integers(-8, 9, shape) / 4 if dtype.kind == "c" else x)
    # NumPy's own products of complex infinities differ from one another
    if x.size and rng.random() < 0.1 and dtype.kind == "f":
        x.reshape(-1)[rng.integers(x.size)] = rng.choice([np.nan, np.inf, -0.0])
    return x.astype(dtype)


def fits(v):
    if (
        not isinstance(v, (np.ndarray, np.generic))
        or v.dtype.kind not in "biufc"
        or v.dtype.itemsize > 16
        or v.size > 200
        or v.dtype.char == "g"
    ):
        return False
    with np.errstate(all="ignore"):
        size = np.abs(v[np.isfinite(v)]) if v.dtype.kind in "fc" else np.zeros(0)
    return not size.size or float(size.max()) < LARGEST


def is_exact(v):
    """Return True if all values are multiples of 1/64 and small, so that sums of some are exact, too."""
    v = np.asarray(v)
    if v.dtype.kind not in "fc":
        return True
    if v.dtype == np.float16:
        return False
    with np.errstate(all="ignore"):
        parts = np.concatenate([np.ravel(v.real), np.ravel(v.imag)])
        parts = parts[np.isfinite(parts)]
        return bool(np.all(parts * 64 == np.round(parts * 64))) and (not parts.size or np.abs(parts).max() < 4096)


class Program:
    """Statements with their inputs, as a function with source."""

    def __init__(self, seed, statements, inputs, smooth):
        self.seed, self.statements, self.inputs, self.smooth = seed, statements, inputs, smooth

    def text(self):
        lines = [s for s in self.statements]
        written = {
            line.split(" = ")[0]
            for s in lines
            for line in s.split("\n")
            if " = " in line and line.split(" = ")[0].isidentifier()
        }
        made = [f"v{k}" for k in range(40) if f"v{k}" in written]
        body = "".join(f"    {s}\n" for s in lines)
        return f"def program({', '.join(n for n, _ in self.inputs)}):\n{body}    return [{', '.join(made)}]\n"

    def function(self):
        text, name = self.text(), f"<fuzz {self.seed} {abs(hash(self.text()))}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        scope = {"np": np, "__name__": "fuzzed"}
        exec(compile(text, name, "exec"), scope)
        return scope["program"]


def make(seed):
    smooth = seed % 4 == 3
    grown = Grown(seed, smooth)
    return Program(seed, grown.statements, grown.inputs, smooth)
