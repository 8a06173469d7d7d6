"""Convolutions of one to three axes as products with patches that stay where they are (`kernels.conv`).

Each unit of work is a band of an image: it is copied with its zeros around it, if there are any, and multiplied. The
tables of offsets that lead to its patches are constants of the program. Of a volume, a unit is a band of a plane of
results: the planes that it reads are copied one behind the other, and patches reach over all of them.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from ...graph.graph import Const, Equation
from ...kernels import blas
from ...kernels.conv import DEPTH, DEPTH_OF_PIXELS
from ...kernels.gemm.tiles import Code
from ..emit import NATIVE, Unit, as_array

__all__ = ["Forward"]

BAND = 1 << 18  # bytes of a padded band: an eighth of a usual second-level cache
POSITIONS = 1 << 12  # of results in a band: tables have an entry for each
IN_CACHE = 1 << 20  # bytes of a kernel's gradient that may be gone through often: half of a second-level cache
CHUNKS = 16  # greatest number of chunks that units are dealt out to
GROUPS = 256  # of few channels, which are written out one by one
PARTS = 8  # ... where each sums up a result of its own
_SCALARS = {"f4": ("f32", "float"), "f8": ("f64", "double")}


class _Buffer:
    """A buffer that lives during one step."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int):
        self.nbytes = nbytes


class _Frame(NamedTuple):
    """Images [n, height, width, channels], and the frame that is seen of them: zeros before and behind (cut off if <
    0).
    """

    shape: tuple[int, int, int, int]
    rows: tuple[int, int]
    columns: tuple[int, int]

    @property
    def padded(self) -> bool:
        return any((*self.rows, *self.columns))

    @property
    def pitch(self) -> int:
        return (self.shape[2] + sum(self.columns)) * self.shape[3]


class _Pass(NamedTuple):
    """Results at ``place[i]`` are sums over p of data at ``row[i] + column[p]`` times kernel elements from ``start[p]``
    on.
    """

    row: np.ndarray
    column: np.ndarray
    start: np.ndarray
    place: np.ndarray


class _Volume(NamedTuple):
    """The first of three axes: plane o of the results reads, for t < `taps`, plane (o step + t gap + shift) / divide of
    the `planes` planes of data, if there is one and its number is whole.
    """

    planes: int
    results: int
    taps: int
    step: int
    gap: int
    shift: int
    divide: int = 1


class _Convolution:
    """Shared parts of the three primitives: a pair of axes, and the chunk function."""

    fails = False

    def accepts(self, eqn: Equation) -> bool:
        x, _ = (a.spec for a in eqn.inputs)
        p, out = eqn.params, eqn.outputs[0].spec
        channels_in, channels_out = self.channels(eqn)
        return (
            f"{out.dtype.kind}{out.dtype.itemsize}" in _SCALARS
            and 3 <= len(x.shape) <= 5
            and all(a.spec.size for a in eqn.inputs)
            and out.size > 0
            and (p["groups"] <= GROUPS or min(channels_in, channels_out) >= 4 * p["groups"])
        )

    def channels(self, eqn) -> tuple[int, int]:
        raise NotImplementedError

    def plan(self, eqn: Equation) -> Any:
        raise NotImplementedError

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        plan = unit.memo[eqn] = self.plan(eqn)
        return {b: b.nbytes for b in plan.buffers}


def _square(eqn: Equation) -> dict[str, Any]:
    """The parameters with two axes: one axis becomes rows of a single column, the first of three is left out."""
    p = dict(eqn.params)
    if len(p["stride"]) == 3:
        p |= {name: p[name][1:] for name in ("stride", "dilation", "padding")}
    if len(p["stride"]) == 1:
        p |= {"stride": (*p["stride"], 1), "dilation": (*p["dilation"], 1), "padding": (*p["padding"], (0, 0))}
    return p


def _images(shape):
    return (*shape[:2], 1, shape[2]) if len(shape) == 3 else (math.prod(shape[:-3]), *shape[-3:])


def _window(shape):
    return (shape[0], 1, *shape[1:]) if len(shape) == 3 else shape[-4:]


def _grid(first, second, steps):
    """Offsets ``i steps[0] + j steps[1] + ...`` of all index tuples, in C order."""
    total = np.zeros(1, np.int64)
    for values, step in zip((first, second), steps, strict=True):
        total = (total[:, None] + np.asarray(values, np.int64) * step).reshape(-1)
    return total


def _with(table, n):
    """Every entry followed by itself plus 0 ... n - 1."""
    return (table[:, None] + np.arange(n)).reshape(-1)


def _whole_tiles(table, rows):
    """`table`, its last entry repeated up to a multiple of `rows`."""
    return np.concatenate([table, np.repeat(table[-1:], -len(table) % rows)])


class _Work:
    """A convolution laid out: images of data in bands, passes over each, and the buffers they need."""

    def __init__(
        self,
        dtype,
        frame: _Frame,
        bands: tuple[int, int, int],
        passes: list[_Pass],
        groups: int,
        most: int,
        volume: _Volume | None = None,
    ):
        """`bands`: lines of results of an image, of a band, and lines of data from one line of results to the next.

        A pass that is not in bands has results of all lines; then there is one band. `volume`: images are planes of
        volumes; the passes are for one plane of data.
        """
        self.name, self.scalar = _SCALARS[f"{dtype.kind}{dtype.itemsize}"]
        self.size, self.frame, self.passes, self.groups = dtype.itemsize, frame, passes, groups
        self.lines, self.band, self.step = bands
        self.n_bands = -(-self.lines // self.band)
        self.volume, images = volume, frame.shape[0]
        self.units = (images if volume is None else images // volume.planes * volume.results) * self.n_bands
        self.chunks = min(self.units, most)
        self.buffers: list[_Buffer] = []
        self.in_bands, self.cleared = True, False  # passes are cut into bands; the results start as zeros
        self.tail: str | None = None  # a function of rows of the results, called after their band, and what it reads
        self.tail_buffers: dict[str, str] = {}
        # data that a band reads, measured in lines
        reach = max(int(p.row.max()) + int(p.column.max()) for p in passes) // frame.pitch + 1
        self.data_lines = reach
        # the last tile of a short band reads on behind it: in a copy there are zeros
        self.plane = reach * frame.pitch  # elements of the copy of one
        copied = self.plane * (volume.taps if volume else 1)
        self.framed = self.buffer(copied) if frame.padded or self.lines % self.band or volume else None
        self.framed_size = copied * self.size

    def buffer(self, elements: int, each: bool = True) -> _Buffer:
        """A buffer for every chunk, or one for all."""
        b = _Buffer(elements * self.size * (self.chunks if each else 1))
        self.buffers.append(b)
        return b


def _pitch_bytes(eqn: Equation, frame: _Frame, volume: _Volume | None) -> int:
    """Bytes of a line of data, in all planes that are read at once."""
    return frame.pitch * eqn.outputs[0].spec.dtype.itemsize * (volume.taps if volume else 1)


def _over_planes(table: np.ndarray, taps: int, step: int) -> np.ndarray:
    """The offsets of `table` for each of the planes that are read, which are `step` apart."""
    return (np.arange(taps)[:, None] * step + table).reshape(-1)


def _band(lines: int, width: int, step: int, reach: int, pitch_bytes: int) -> int:
    """Lines of `width` results whose data fit into a band, dealt out evenly."""
    most = max(1, min(POSITIONS // width, (BAND // max(1, pitch_bytes) - reach) // step + 1))
    return -(-lines // -(-lines // most))


def _emit(unit: Unit, eqn: Equation, work: _Work, arguments: dict[str, str], body) -> None:
    """A function of a chunk of the units, and its call.

    ``body(code, image, first, lines, data, again, pointers)`` writes the products of a band: lines `first` ... of
    `image`, their `data`, and whether the chunk has done others before.
    """
    module, scalar, frame = unit.module, work.scalar, work.frame
    module.parallel = True
    module.declares.update(blas.convolution_definitions(work.name))
    name = f"{unit.name}.conv{len(module.functions)}"
    code = Code()
    pointers = {key: code.set(f"load ptr, ptr {code.at('ptr', '%context', str(k))}") for k, key in enumerate(arguments)}
    lo, hi = (
        code.int("udiv", code.int("mul", at, work.units), work.chunks)
        for at in ("%chunk", code.int("add", "%chunk", 1))
    )
    with code.loop(lo, hi, "1") as u:
        image, band = code.int("udiv", u, work.n_bands), code.int("urem", u, work.n_bands)
        first = code.int("mul", band, work.band)
        lines = code.minimum(code.int("sub", work.lines, first), str(work.band))
        _, height, width, channels = frame.shape
        top = code.int("mul", first, work.step)
        if work.framed is not None:
            data = code.at("i8", pointers["framed"], code.int("mul", "%chunk", work.framed_size))
            top = code.int("sub", top, frame.rows[0])
            left, right = frame.columns
            seen = max(0, width + min(0, left) + min(0, right))
            for source, there, target in _planes(code, work, image, data):
                numbers = (top, work.data_lines, there, width * channels, max(0, left) * channels,
                           max(0, -left) * channels, seen * channels, max(0, right) * channels)  # fmt: skip
                source = code.at(scalar, pointers["data"], code.int("mul", source, height * width * channels))
                code.emit(
                    f"call void @tsk.conv.pad.{work.name}(ptr {source}, ptr {target}, "
                    f"{', '.join(f'i64 {x}' for x in numbers)})"
                )
        else:
            source = code.at(scalar, pointers["data"], code.int("mul", image, height * width * channels))
            data = code.at(scalar, source, code.int("mul", top, width * channels))
        again = code.set(f"icmp ne i64 {u}, {lo}")
        body(code, image, first, lines, data, again, pointers)
    code.emit("ret void")
    module.functions += [f"define internal void @{name}(ptr %context, i64 %chunk) {{", "entry:", *code.lines, "}"]
    module.declares |= {"declare i64 @llvm.smin.i64(i64, i64)", "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"}
    unit.line(
        f"call void @tsk_parallel_for(ptr @{name}, ptr {unit.table(list(arguments.values()))}, i64 {work.chunks})"
    )


def _planes(code: Code, work: _Work, image: str, data: str):
    """Yield number, line count (zero for a plane outside the volume) and destination of each plane to copy."""
    height, v = work.frame.shape[1], work.volume
    if v is None:
        yield image, height, data
        return
    of_volume = code.int("mul", code.int("udiv", image, v.results), v.planes)
    base = code.int("add", code.int("mul", code.int("urem", image, v.results), v.step), v.shift)
    for t in range(v.taps):
        scaled = code.int("add", base, t * v.gap)
        z = code.int("sdiv", scaled, v.divide)
        inside = code.set(f"icmp ult i64 {z}, {v.planes}")  # unsigned: false where negative, too
        whole = code.set(f"icmp eq i64 {scaled}, {code.int('mul', z, v.divide)}")
        there = code.set(f"select i1 {code.set(f'and i1 {inside}, {whole}')}, i64 {height}, i64 0")
        yield code.int("add", of_volume, z), there, code.at(work.scalar, data, str(t * work.plane))


def _constant(unit: Unit, table: np.ndarray) -> str:
    return unit.pointer(as_array(Const(np.ascontiguousarray(table, np.int64))))


class Forward(_Convolution):
    """`conv`, and `conv_input`: the results are pixels."""

    def channels(self, eqn):
        k = eqn.inputs[1].spec.shape
        return k[-2] * eqn.params["groups"], k[-1]

    def plan(self, eqn):
        x, k = (a.spec.shape for a in eqn.inputs)
        p = _square(eqn)
        images, (height, width, depth, n_out), outs = _images(x), _window(k), _images(eqn.outputs[0].spec.shape)
        frame = _Frame(images, *p["padding"])
        (sh, sw), (dh, dw), c = p["stride"], p["dilation"], images[3]
        reach = (height - 1) * dh + 1
        volume = None
        if len(k) == 5:
            p3 = eqn.params
            volume = _Volume(
                x[1], eqn.outputs[0].spec.shape[1], k[0], p3["stride"][0], p3["dilation"][0], -p3["padding"][0][0]
            )
        band = _band(outs[1], outs[2], sh, reach, _pitch_bytes(eqn, frame, volume))
        one = _Pass(
            _grid(range(band), range(outs[2]), (sh * frame.pitch, sw * c)),
            _with(_grid(range(height), range(width), (dh * frame.pitch, dw * c)), depth),
            np.arange(height * width * depth) * n_out,
            np.arange(band * outs[2]) * n_out,
        )
        return self.work(eqn, frame, (outs[1], band, sh), [one], outs[3], 1, volume)

    def work(self, eqn, frame, bands, passes, n_out, stride, volume):
        """`stride`: of the kernel, from one channel out to the next."""
        work = _Work(eqn.outputs[0].spec.dtype, frame, bands, passes, eqn.params["groups"], CHUNKS, volume)
        if volume is not None:
            of_plane = math.prod(eqn.inputs[1].spec.shape[1:])
            passes = work.passes = [
                p._replace(
                    column=_over_planes(p.column, volume.taps, work.plane),
                    start=_over_planes(p.start, volume.taps, of_plane),
                )
                for p in passes
            ]
        work.n, work.stride = n_out // work.groups, stride
        rows, lanes = blas.convolution_tile(work.name)
        work.tile_rows, work.wide = rows, -(-work.n // lanes) * lanes
        work.packed = work.buffer(work.groups * work.wide * sum(len(p.start) for p in passes), each=False)
        return work

    def emit(self, unit, eqn):
        work = unit.memo[eqn]
        data, kernel = (unit.pointer(as_array(a)) for a in eqn.inputs)
        out, packed = unit.pointer(eqn.outputs[0]), unit.pointer(work.packed)
        unit.module.declares.update(blas.convolution_definitions(work.name))
        g_data, g_out = work.frame.shape[3] // work.groups, work.n
        g_kernel = eqn.inputs[1].spec.shape[-1] // work.groups  # channels out are the kernel's last axis
        places, at = [], 0
        for k, p in enumerate(work.passes):
            start = _constant(unit, p.start)
            for g in range(work.groups):
                unit.line(
                    f"call void @tsk.conv.pack.{work.name}(i64 {work.n}, i64 {len(p.start)}, ptr "
                    f"{unit.offset(kernel, g * g_kernel * work.size)}, ptr {start}, "
                    f"i64 {work.stride}, ptr {unit.offset(packed, at * work.size)})"
                )
                places.append((k, g, at))
                at += work.wide * len(p.start)
        arguments = {"data": data, "out": out, "packed": packed, **work.tail_buffers}
        if work.framed is not None:
            arguments["framed"] = unit.pointer(work.framed)
        for k, p in enumerate(work.passes):
            arguments |= {
                f"row{k}": _constant(unit, _whole_tiles(p.row, work.tile_rows)),
                f"column{k}": _constant(unit, p.column),
                f"place{k}": _constant(unit, _whole_tiles(p.place, work.tile_rows)),
            }
        per_image = math.prod(_images(eqn.outputs[0].spec.shape)[1:])
        per_line = per_image // work.lines

        def body(code, image, first, lines, data, again, pointers):
            target = code.at(
                work.scalar,
                pointers["out"],
                code.int("add", code.int("mul", image, per_image), code.int("mul", first, per_line)),
            )
            if work.cleared:
                code.emit(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {per_image * work.size}, i1 false)")
            for k, g, at in places:
                p = work.passes[k]
                m = code.int("mul", lines, len(p.row) // work.band) if work.in_bands else len(p.row)
                code.emit(
                    f"call void @tsk.conv.product.{work.name}(i64 {m}, i64 {work.n}, i64 {len(p.column)}, "
                    f"i64 {DEPTH}, ptr {code.at(work.scalar, data, str(g * g_data))}, "
                    f"ptr {pointers[f'row{k}']}, ptr {pointers[f'column{k}']}, ptr "
                    f"{code.at(work.scalar, pointers['packed'], str(at))}, i64 0, "
                    f"ptr {code.at(work.scalar, target, str(g * g_out))}, ptr {pointers[f'place{k}']}, i1 false)"
                )
            if work.tail is not None:
                width = per_line // eqn.outputs[0].spec.shape[-1]
                low = code.int("mul", code.int("add", code.int("mul", image, work.lines), first), width)
                high = code.int("add", low, code.int("mul", lines, width))
                read = "".join(f", ptr {pointers[key]}" for key in work.tail_buffers)
                code.set(f"call i64 @{work.tail}(ptr {pointers['out']}{read}, i64 {low}, i64 {high})")

        _emit(unit, eqn, work, arguments, body)
        unit.module.flops += eqn.primitive.flops([a.spec for a in eqn.inputs], [eqn.outputs[0].spec], **eqn.params)


class _Input(Forward):
    """`conv_input`: every pixel of the data collects from the results it went into.

    With strides, pixels whose places differ by a multiple of them have the same elements of the window: a pass for each
    of those classes. Classes that have none stay zero.
    """

    def accepts(self, eqn):
        return super().accepts(eqn) and all(map(any, _phases(eqn)))

    def plan(self, eqn):
        y, k = (a.spec.shape for a in eqn.inputs)
        outs, (_, width, depth, n_out), images = _images(y), _window(k), _images(eqn.params["shape"])
        of_group = n_out // eqn.params["groups"]
        rows, columns = _phases(eqn)
        single, complete = len(rows) == len(columns) == 1, all(itertools.chain(rows, columns))
        rows, columns = ([phase for phase in axis if phase] for axis in (rows, columns))
        # positions of results that are read, relative to the pixel's own: bounds of the frame
        bounds = [
            (
                min(min(own) + min(s for _, s in taps) for own, _, taps in axis),
                max(max(own) + max(s for _, s in taps) for own, _, taps in axis),
            )
            for axis in (rows, columns)
        ]
        frame = _Frame(outs, *[(-low, high - (n - 1)) for (low, high), n in zip(bounds, outs[1:3], strict=True)])
        passes, volume = [], None
        if len(k) == 5:
            p = eqn.params
            volume = _Volume(y[1], p["shape"][1], k[0], 1, -p["dilation"][0], p["padding"][0][0], p["stride"][0])
        band = images[1]
        if single:
            reach = bounds[0][1] - bounds[0][0] + 1 - (images[1] - 1)
            band = _band(images[1], images[2], 1, reach, _pitch_bytes(eqn, frame, volume))
        for (own_h, at_h, taps_h), (own_w, at_w, taps_w) in itertools.product(rows, columns):
            if single:
                own_h, at_h = own_h[:band], at_h[:band]
            row = _grid([o - bounds[0][0] for o in own_h], [o - bounds[1][0] for o in own_w], (frame.pitch, outs[3]))
            column = _with(_grid([s for _, s in taps_h], [s for _, s in taps_w], (frame.pitch, outs[3])), of_group)
            start = _with(
                _grid([t for t, _ in taps_h], [t for t, _ in taps_w], (width * depth * n_out, depth * n_out)), of_group
            )
            place = _grid(at_h, at_w, (images[2] * images[3], images[3]))
            passes.append(_Pass(row, column, start, place))
        work = self.work(eqn, frame, (images[1], band, 1), passes, images[3], n_out, volume)
        work.in_bands, work.cleared = single, not complete
        return work


def _phases(eqn):
    """For both axes and each class of pixels: (positions of the result that they belong to, pixels, (element of the
    window, shift of that position)); empty where a class has no element of the window.
    """
    p = _square(eqn)
    window, shape = _window(eqn.inputs[1].spec.shape), _images(p["shape"])
    axes = []
    for axis in range(2):
        n, k, s, d, (low, _) = shape[axis + 1], window[axis], p["stride"][axis], p["dilation"][axis], p["padding"][axis]
        classes = []
        for phase in range(s):
            pixels = [i for i in range(n) if (i + low) % s == phase]
            taps = [(t, (phase - t * d) // s) for t in range(k) if (phase - t * d) % s == 0]
            if pixels:
                classes.append(([(i + low) // s for i in pixels], pixels, taps) if taps else ())
        axes.append(classes)
    return axes


class _Kernel(_Convolution):
    """`conv_kernel`: the results are elements of the window, summed over all pixels."""

    def channels(self, eqn):
        out = eqn.outputs[0].spec.shape
        return out[-2] * eqn.params["groups"], out[-1]

    def plan(self, eqn):
        x, y = (_images(a.spec.shape) for a in eqn.inputs)
        p, shape = _square(eqn), eqn.outputs[0].spec.shape
        height, width, depth, n_out = _window(shape)
        frame = _Frame(x, *p["padding"])
        (sh, sw), (dh, dw), c = p["stride"], p["dilation"], x[3]
        volume = None
        if len(shape) == 5:
            p3, (planes, results) = eqn.params, [a.spec.shape[1] for a in eqn.inputs]
            volume = _Volume(planes, results, shape[0], p3["stride"][0], p3["dilation"][0], -p3["padding"][0][0])
        band = _band(y[1], y[2], sh, (height - 1) * dh + 1, _pitch_bytes(eqn, frame, volume))
        one = _Pass(
            _with(_grid(range(height), range(width), (dh * frame.pitch, dw * c)), depth),
            _grid(range(band), range(y[2]), (sh * frame.pitch, sw * c)),
            np.arange(band * y[2]) * n_out,
            np.arange(height * width * depth) * n_out,
        )
        work = _Work(eqn.outputs[0].spec.dtype, frame, (y[1], band, sh), [one], p["groups"], PARTS, volume)
        if volume is not None:
            work.passes = [
                one._replace(
                    row=_over_planes(one.row, volume.taps, work.plane),
                    place=_over_planes(one.place, volume.taps, math.prod(shape[1:])),
                )
            ]
        rows, lanes = blas.convolution_tile(work.name)
        work.tile_rows, work.n = rows, n_out // work.groups
        wide = -(-work.n // lanes) * lanes
        work.packed = work.buffer(wide * band * y[2]) if wide != work.n else None
        work.packed_size = wide * band * y[2] * work.size
        work.parts = work.buffer(eqn.outputs[0].spec.size) if work.chunks > 1 else None
        return work

    def emit(self, unit, eqn):
        work = unit.memo[eqn]
        (p,), out = work.passes, eqn.outputs[0]
        data, y = (unit.pointer(as_array(a)) for a in eqn.inputs)
        sums = unit.pointer(out if work.parts is None else work.parts)
        arguments = {
            "data": data,
            "y": y,
            "sums": sums,
            "row": _constant(unit, _whole_tiles(p.row, work.tile_rows)),
            "column": _constant(unit, p.column),
            "place": _constant(unit, _whole_tiles(p.place, work.tile_rows)),
        }
        if work.framed is not None:
            arguments["framed"] = unit.pointer(work.framed)
        if work.packed is not None:
            arguments |= {"packed": unit.pointer(work.packed), "start": _constant(unit, p.start)}
        n_out = out.spec.shape[-1]
        per_image = math.prod(_images(eqn.inputs[1].spec.shape)[1:])
        per_line = per_image // work.lines
        depth = DEPTH_OF_PIXELS if out.spec.nbytes <= IN_CACHE else DEPTH

        def body(code, image, first, lines, data, again, pointers):
            target = code.at(work.scalar, pointers["sums"], code.int("mul", "%chunk", out.spec.size))
            there = code.at(
                work.scalar,
                pointers["y"],
                code.int("add", code.int("mul", image, per_image), code.int("mul", first, per_line)),
            )
            k = code.int("mul", lines, per_line // n_out)
            for g in range(work.groups):
                b, ldb = code.at(work.scalar, there, str(g * work.n)), n_out
                if work.packed is not None:
                    packed = code.at("i8", pointers["packed"], code.int("mul", "%chunk", work.packed_size))
                    code.emit(
                        f"call void @tsk.conv.pack.{work.name}(i64 {work.n}, i64 {k}, ptr {b}, ptr "
                        f"{pointers['start']}, i64 1, ptr {packed})"
                    )
                    b, ldb = packed, 0
                code.emit(
                    f"call void @tsk.conv.product.{work.name}(i64 {len(p.row)}, i64 {work.n}, i64 {k}, "
                    f"i64 {depth}, ptr "
                    f"{code.at(work.scalar, data, str(g * (work.frame.shape[3] // work.groups)))}, ptr "
                    f"{pointers['row']}, ptr {pointers['column']}, "
                    f"ptr {b}, i64 {ldb}, ptr {code.at(work.scalar, target, str(g * work.n))}, ptr "
                    f"{pointers['place']}, i1 {again})"
                )

        _emit(unit, eqn, work, arguments, body)
        if work.parts is not None:
            unit.line(
                f"call void @tsk.conv.sum.{work.name}(ptr {unit.pointer(out)}, ptr {sums}, i64 {out.spec.size}, "
                f"i64 {work.chunks})"
            )
        unit.module.flops += eqn.primitive.flops([a.spec for a in eqn.inputs], [out.spec], **eqn.params)


NATIVE["conv"], NATIVE["conv_input"], NATIVE["conv_kernel"] = Forward(), _Input(), _Kernel()
