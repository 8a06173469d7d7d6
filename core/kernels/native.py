"""LLVM IR text to machine code in this process, through llvmlite alone: no C compiler and no Numba front end.

The least that hand-written IR needs (`threads`, `blas`) and that `core.compile.engine` builds its cached engine on.
"""

import ctypes
import itertools
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

import llvmlite.binding as llvm

from ..disk import disk_cache
from .notice import compiling

__all__ = [
    "LoadedObject",
    "Symbols",
    "Target",
    "checked",
    "compile_object",
    "host_target",
    "levels",
    "load",
    "object_of",
    "symbols_of",
    "targets",
]

_HAS_JITLINK = sys.platform != "win32"
_CPU_VARIABLE = "TRISKELE_CPU"
# Levels of each architecture, the highest first, and their features (System V ABI, AMD64 supplement, table 3.1).
_V3 = "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"
_LEVELS = {
    "x86_64": {
        "x86-64-v4": f"{_V3},+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,-prefer-256-bit",
        "x86-64-v3": _V3,
        "x86-64-v2": "",
        "x86-64": "",
    },
    "aarch64": {"neoverse-n1": "+neon", "cortex-a72": "+neon", "generic": "+neon"},
    "arm64": {"apple-m1": "+neon", "generic": "+neon"},
}
_SHIPPED = ("x86-64-v4", "x86-64-v3", "generic")


class Target(NamedTuple):
    """The target processor, and whether code checks its indices: part of every key of the store."""

    triple: str
    cpu: str
    features: str
    llvm: str
    checked: str


@cache
def _initialize() -> None:
    """LLVM's native target, once."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def host_target() -> Target:
    """Return the processor to compile for: the host, or the lower one in the environment variable `TRISKELE_CPU`.

    Lower ones (`x86-64-v3`, `x86-64-v2`, ...) are for tests of portability: results then differ by rounding at most.
    """
    return _target(os.environ.get(_CPU_VARIABLE, ""))


@cache
def _target(requested: str) -> Target:
    _initialize()
    rest = ".".join(map(str, llvm.llvm_version_info)), str(checked())
    triple = llvm.get_process_triple()
    if requested:
        known = _LEVELS.get(triple.partition("-")[0], {})
        if requested not in known:  # LLVM itself ends the process over an unknown name
            raise ValueError(f"{_CPU_VARIABLE}: must be one of {', '.join(known) or 'nothing here'}, got {requested!r}")
        return Target(triple, requested, known[requested], *rest)
    features = llvm.get_host_cpu_features()
    flat = features.flatten()
    if features.get("avx512f"):
        # Several CPU models ask LLVM for 256-bit vectors out of fear of lowered clocks; 512 are 1.3 (float32) to 1.5
        # (float64) times faster on a chain of multiply-adds over data in the first-level cache (one AVX-512 Xeon).
        flat += ",-prefer-256-bit"
    # Where processors calculate in half precision, LLVM contracts products and sums there, which then round only once.
    flat = flat.replace("+avx512fp16", "-avx512fp16").replace("+fullfp16", "-fullfp16")
    return Target(triple, llvm.get_host_cpu_name(), flat, *rest)


def has_feature(name: str) -> bool:
    """Return True if the target processor has the feature that LLVM calls `name` (`avx512f`, `neon`, ...)."""
    return f"+{name}" in host_target().features.split(",")


def targets() -> tuple[Target, ...]:
    """The processors whose code may be loaded here: this one, and where the package ships code, its levels."""
    return (host_target(), *(levels() if disk_cache.has_shipped() else ()))


@cache
def levels() -> tuple[Target, ...]:
    """The levels that code is shipped for and that this processor can run, the highest first."""
    if os.environ.get(_CPU_VARIABLE):
        return ()
    known = _LEVELS.get(host_target().triple.partition("-")[0], {})
    return tuple(
        _target(name)
        for name in _SHIPPED
        if all(f[0] == "-" or has_feature(f[1:]) for f in known.get(name, "+never").split(","))
    )


@cache
def checked() -> bool:
    """Return True if the environment variable `TRISKELE_CHECKED` is set to 1: then compiled code checks its indices.

    Kernels, SIMD loads and stores raise `IndexError`; programs of `jit` stop the process. Code compiled with and
    without checks does not share the cache on disk.
    """
    return os.environ.get("TRISKELE_CHECKED", "0") not in ("", "0")


def _machine(opt: int):
    """A fresh target machine: small code model and PIC, so that constants are addressed relative to the program
    counter in place of a 64-bit immediate each.
    """
    _initialize()
    target = host_target()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=opt,
        reloc="pic",
        codemodel="small" if _HAS_JITLINK else "jitdefault",
        jit=True,
    )


def compile_object(text: str, *, opt: int = 3, passes: bool = True) -> tuple[bytes, dict[str, float]]:
    """Compile LLVM assembly to a relocatable object file, and return it with the seconds that each stage took.

    The text uses opaque pointers; the stages are "parse", "optimize" and "emit". No address of this process is in the
    object. Without `passes`, LLVM only chooses instructions and registers: several times quicker, for text that keeps
    its values in registers and uses vectors already.
    """
    _initialize()
    marks = [time.perf_counter()]
    module = llvm.parse_assembly(text, context=llvm.create_context())
    module.triple = host_target().triple
    module.verify()
    marks.append(time.perf_counter())
    machine = _machine(opt)
    module.data_layout = str(machine.target_data)
    if passes:
        tuning = llvm.create_pipeline_tuning_options(speed_level=opt)
        tuning.loop_vectorization = tuning.slp_vectorization = opt >= 2
        tuning.loop_unrolling = tuning.loop_interleaving = opt >= 2
        builder = llvm.create_pass_builder(machine, tuning)
        manager = builder.getModulePassManager()
        manager.run(module, builder)
        llvm.newpassmanagers.NewPassManager._dispose(manager)  # llvmlite leaves it, with all that it has learned
        manager.detach()
    marks.append(time.perf_counter())
    code = machine.emit_object(module)
    marks.append(time.perf_counter())
    return code, dict(zip(("parse", "optimize", "emit"), (b - a for a, b in itertools.pairwise(marks)), strict=True))


class _Linker:
    """The linker of the next objects, a new one for every `SHARE` of them: LLVM keeps 9 KiB of each object it has
    unloaded until the linker is closed, and to make a linker takes 2 ms.
    """

    SHARE = 64

    def __init__(self):
        self._left = 0
        self._current = None

    def take(self):
        if not self._left:
            # JITLink puts all sections of an object into one block, as the small code model needs.
            self._current = llvm.create_lljit_compiler(None, use_jit_link=_HAS_JITLINK, suppress_errors=True)
            self._left = self.SHARE
        self._left -= 1
        return self._current


class LoadedObject:
    """Machine code from `compile_object`, linked into this process; it stays mapped as long as this object lives.

    `exports` are the functions and globals that `address` can find; `imports` are the addresses of external symbols,
    and others are looked up among the process's own. RuntimeError names a symbol that cannot be found.
    """

    _lock = threading.Lock()
    _serial = itertools.count()
    _linkers = _Linker()

    def __init__(self, code: bytes, exports: Iterable[str], imports: Mapping[str, int]):
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in exports:
            library.export_symbol(name)
        for name, value in imports.items():
            library.import_symbol(name, value)
        with self._lock:
            linker = self._linkers.take()
            self._tracker = library.link(linker, f"triskele{next(self._serial)}")
        # Not at exit: threads of the pool may still look out for work inside the code.
        weakref.finalize(self, _unload, self._tracker, linker).atexit = False

    def address(self, name: str) -> int:
        """Return the address of a symbol; raise KeyError if it is not among `exports`."""
        return self._tracker[name]


def _unload(tracker, linker):
    """Unload an object, then the linker with it if it was its last: a call drops its last references in that order."""
    tracker.close()


class Symbols(NamedTuple):
    """Names that a module's text defines for others, and those it needs."""

    exports: frozenset[str]
    imports: frozenset[str]


_NAME = r'@([\w.$-]+|"[^"]+")'
_DEFINED = re.compile(rf"^define (?!(?:internal|private)\b)[^@\n]*{_NAME}\(", re.MULTILINE)
_DECLARED = re.compile(rf"^declare [^@\n]*{_NAME}\(", re.MULTILINE)
_GLOBAL = re.compile(
    rf"^{_NAME} = (?!(?:internal|private|external|appending)\b)[\w ()]*\b(?:global|constant)\b", re.MULTILINE
)


def symbols_of(text: str) -> Symbols:
    """The external symbols of LLVM assembly text, by its `define`, `declare` and global lines."""
    exports = frozenset(n.strip('"') for n in _DEFINED.findall(text) + _GLOBAL.findall(text))
    declared = frozenset(n.strip('"') for n in _DECLARED.findall(text))
    return Symbols(exports, frozenset(n for n in declared - exports if not n.startswith("llvm.")))


def object_of(text: str, *, opt: int = 3, passes: bool = True) -> tuple[str, bytes, dict[str, float]]:
    """Return a module's key in the store, its object and the seconds of each stage, empty if the store had the object.

    The arguments are those of `compile_object`.
    """
    parts = ("object", text, str(opt), str(passes), disk_cache.source_stamp())
    keys = [disk_cache.make_key(*parts, *target) for target in targets()]
    for key in keys:
        if (code := disk_cache.get(key)) is not None:
            return key, code, {}
    with compiling("a program"):
        code, seconds = compile_object(text, opt=opt, passes=passes)
    disk_cache.put(keys[0], code)
    return keys[0], code, seconds


def load(text: str, imports: Mapping[str, int], *, opt: int = 2, passes: bool = True) -> LoadedObject:
    """Compile and load a module that lives as long as the process (pool threads sleep inside such code)."""
    loaded = LoadedObject(object_of(text, opt=opt, passes=passes)[1], symbols_of(text).exports, imports)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))  # not even when the interpreter shuts down
    return loaded
