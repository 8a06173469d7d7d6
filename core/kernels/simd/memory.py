"""Loads and stores: contiguous, masked, indexed, broadcast."""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from ..native import checked
from .link import link
from .vector import (
    Vec,
    alignment,
    call,
    check_lanes,
    element_of,
    pointer,
    splat_value,
    start,
    vector_of,
    width_of,
)

__all__ = [
    "address",
    "gather",
    "gather_masked",
    "load",
    "load_masked",
    "load_scalar",
    "load_splat",
    "scatter",
    "scatter_masked",
    "store",
    "store_masked",
]


@intrinsic
def address(typingctx, array, index):
    """Pointer to `array[index]`: taken by everything here in place of an array.

    Arrays are counted references, and the counting stays in loops that call inlined functions and branch; pointers
    cost nothing. The array must live as long.
    """
    element = element_of(array, "address")
    if checked() and isinstance(array, types.Array):
        return _rest(array, types.Array(element, 1, "C", readonly=not array.mutable))
    result = types.CPointer(element)

    def codegen(context, builder, sig, args):
        return pointer(context, builder, sig.args[0], args[0], args[1])

    return result(array, types.intp), codegen


def _rest(array, result):
    """The array from an index on, which knows its length: in place of a pointer where indices are checked."""

    def codegen(context, builder, sig, args):
        old, new = context.make_array(array)(context, builder, args[0]), context.make_array(result)(context, builder)
        size = builder.sub(old.nitems, args[1])
        item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(array.dtype)))
        populate_array(
            new, data=builder.gep(old.data, [args[1]]), shape=[size], strides=[item], itemsize=item, meminfo=None
        )
        return new._getvalue()

    return result(array, types.intp), codegen


@intrinsic(prefer_literal=True)
def load(typingctx, array, index, width):
    """`width` consecutive elements from `array[index]` on."""
    vec = Vec(element_of(array, "load"), width_of(width, "load"))

    def codegen(context, builder, sig, args):
        p = pointer(context, builder, sig.args[0], args[0], args[1], vec.n)
        v = builder.load(builder.bitcast(p, vec.llvm.as_pointer()))
        v.align = alignment(vec)
        return v

    return vec(array, types.intp, width), codegen


@intrinsic
def store(typingctx, array, index, v):
    """Write the lanes of `v` from `array[index]` on. A number is written to every lane only through `splat`."""
    vector_of(v, "store")
    if element_of(array, "store") != v.scalar:
        raise TypingError(f"simd.store: array must have the vector's dtype {v.scalar}, got {array.dtype}")

    def codegen(context, builder, sig, args):
        p = pointer(context, builder, sig.args[0], args[0], args[1], v.n)
        builder.store(args[2], builder.bitcast(p, v.llvm.as_pointer()), align=alignment(v))
        return context.get_dummy_value()

    return types.void(array, types.intp, v), codegen


@intrinsic
def load_masked(typingctx, array, index, mask, other):
    """Elements from `array[index]` on where `mask`, `other` elsewhere; masked elements are not touched."""
    vector_of(mask, "load_masked", "mask")
    vec = Vec(element_of(array, "load_masked"), mask.n)
    t = f"<{vec.n} x {vec.llvm.element}>"
    text = f"""define {t} @tsk.load.{vec.suffix}(ptr %p, <{vec.n} x i1> %m, {t} %d) alwaysinline {{
  %r = call {t} @llvm.masked.load.{vec.suffix}.p0(ptr %p, i32 {alignment(vec)}, <{vec.n} x i1> %m, {t} %d)
  ret {t} %r
}}
declare {t} @llvm.masked.load.{vec.suffix}.p0(ptr, i32, <{vec.n} x i1>, {t})"""

    def codegen(context, builder, sig, args):
        link(context, f"load.{vec.suffix}", text)
        p = pointer(context, builder, sig.args[0], args[0], args[1], vec.n, args[2])
        return call(builder, f"tsk.load.{vec.suffix}", vec.llvm, [p, args[2], args[3]])

    return vec(array, types.intp, mask, vec), codegen


@intrinsic
def store_masked(typingctx, array, index, v, mask):
    """Write the lanes of `v` where `mask`."""
    vector_of(mask, "store_masked", "mask")
    if element_of(array, "store_masked") != vector_of(v, "store_masked").scalar or v.n != mask.n:
        raise TypingError(f"simd.store_masked: array, vector and mask must match, got {array}, {v}, {mask}")
    t = f"<{v.n} x {v.llvm.element}>"
    text = f"""define void @tsk.store.{v.suffix}(ptr %p, {t} %v, <{v.n} x i1> %m) alwaysinline {{
  call void @llvm.masked.store.{v.suffix}.p0({t} %v, ptr %p, i32 {alignment(v)}, <{v.n} x i1> %m)
  ret void
}}
declare void @llvm.masked.store.{v.suffix}.p0({t}, ptr, i32, <{v.n} x i1>)"""

    def codegen(context, builder, sig, args):
        link(context, f"store.{v.suffix}", text)
        p = pointer(context, builder, sig.args[0], args[0], args[1], v.n, args[3])
        call(builder, f"tsk.store.{v.suffix}", ir.VoidType(), [p, args[2], args[3]])
        return context.get_dummy_value()

    return types.void(array, types.intp, v, mask), codegen


def _indexed(kind, vec, index):
    """IR of gather and scatter: llvmlite's builder has no vectors of pointers."""
    n, e, i = vec.n, str(vec.llvm.element), f"i{index.scalar.bitwidth}"
    name = f"{kind}.{vec.suffix}.{i}"
    ptrs, m, t = f"<{n} x ptr>", f"<{n} x i1>", f"<{n} x {e}>"
    address = f"  %a = getelementptr {e}, ptr %p, <{n} x {i}> %i\n"
    if kind == "gather":
        f = f"@llvm.masked.gather.{vec.suffix}.v{n}p0"
        text = (
            f"define {t} @tsk.{name}(ptr %p, <{n} x {i}> %i, {m} %m, {t} %v) alwaysinline {{\n{address}"
            f"  %r = call {t} {f}({ptrs} %a, i32 {alignment(vec)}, {m} %m, {t} %v)\n  ret {t} %r\n}}\n"
            f"declare {t} {f}({ptrs}, i32, {m}, {t})"
        )
    else:
        f = f"@llvm.masked.scatter.{vec.suffix}.v{n}p0"
        text = (
            f"define void @tsk.{name}(ptr %p, <{n} x {i}> %i, {m} %m, {t} %v) alwaysinline {{\n{address}"
            f"  call void {f}({t} %v, {ptrs} %a, i32 {alignment(vec)}, {m} %m)\n  ret void\n}}\n"
            f"declare void {f}({t}, {ptrs}, i32, {m})"
        )
    return name, text


def _gather(vec, indices):
    """Code that takes elements, for a call with or without a mask and the value elsewhere."""

    def codegen(context, builder, sig, args):
        name, text = _indexed("gather", vec, indices)
        link(context, name, text)
        check_lanes(context, builder, sig.args[0], args[0], args[1], vec.n, *args[2:3])
        p = start(context, builder, sig.args[0], args[0])
        everywhere = [ir.Constant(vec.mask.llvm, [1] * vec.n), ir.Constant(vec.llvm, ir.Undefined)]
        return call(builder, f"tsk.{name}", vec.llvm, [p, args[1], *(args[2:] or everywhere)])

    return codegen


@intrinsic
def gather_masked(typingctx, array, indices, mask, other):
    """`array[indices]` where `mask`, `other` elsewhere."""
    vec = Vec(element_of(array, "gather"), vector_of(indices, "gather").n)
    vector_of(mask, "gather", "mask")
    return vec(array, indices, mask, vec), _gather(vec, indices)


@intrinsic
def gather(typingctx, array, indices):
    """`array[indices]`."""
    vec = Vec(element_of(array, "gather"), vector_of(indices, "gather").n)
    return vec(array, indices), _gather(vec, indices)


def _scatter(array, indices, v):
    """Code that writes elements, for a call with or without a mask."""
    if element_of(array, "scatter") != vector_of(v, "scatter").scalar or v.n != vector_of(indices, "scatter").n:
        raise TypingError(f"simd.scatter: array, indices and vector must match, got {array}, {indices}, {v}")

    def codegen(context, builder, sig, args):
        name, text = _indexed("scatter", v, indices)
        link(context, name, text)
        check_lanes(context, builder, sig.args[0], args[0], args[1], v.n, *args[3:])
        p = start(context, builder, sig.args[0], args[0])
        mask = args[3] if args[3:] else ir.Constant(v.mask.llvm, [1] * v.n)
        call(builder, f"tsk.{name}", ir.VoidType(), [p, args[1], mask, args[2]])
        return context.get_dummy_value()

    return codegen


@intrinsic
def scatter_masked(typingctx, array, indices, v, mask):
    """`array[indices] = v` where `mask`; of equal indices the highest lane wins."""
    vector_of(mask, "scatter", "mask")
    return types.void(array, indices, v, mask), _scatter(array, indices, v)


@intrinsic
def scatter(typingctx, array, indices, v):
    """`array[indices] = v`; of equal indices the highest lane wins."""
    return types.void(array, indices, v), _scatter(array, indices, v)


@intrinsic
def load_scalar(typingctx, array, index):
    """`array[index]` without the code for negative indices."""
    element = element_of(array, "load_scalar")

    def codegen(context, builder, sig, args):
        x = builder.load(pointer(context, builder, sig.args[0], args[0], args[1]))
        x.align = max(1, element.bitwidth // 8)
        return x

    return element(array, types.intp), codegen


@intrinsic(prefer_literal=True)
def load_splat(typingctx, array, index, width):
    """`array[index]` in every lane.

    In a loop this is cheaper than a literal: the processor broadcasts as it loads, where a literal that does not
    find a free register is rebuilt each time, code compiled at run time having no constants near it.
    """
    vec = Vec(element_of(array, "load_splat"), width_of(width, "load_splat"))

    def codegen(context, builder, sig, args):
        x = builder.load(pointer(context, builder, sig.args[0], args[0], args[1]))
        x.align = alignment(vec)
        return splat_value(builder, x, vec.n)

    return vec(array, types.intp, width), codegen
