"""LLVM IR text to machine code in this process, through llvmlite alone: no C compiler and no Numba front end.

The least that hand-written IR needs (`threads`, `blas`) and that `core.compile.engine` builds its cached engine on.
"""

import os
import re
import threading
import time
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

__all__ = ["LoadedObject", "Target", "address", "compile_object", "define_symbols", "host_target", "load"]

_NEVER_FREED: list[object] = []
_CPU_VARIABLE = "TRISKELE_CPU"


class Target(NamedTuple):
    """What code is generated for: part of every cache key."""

    triple: str
    cpu: str
    features: str
    llvm: str


@cache
def _binding():
    """`llvmlite.binding` with the native target initialised; imported late, since it costs 45 ms."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def host_target() -> Target:
    """The processor to compile for: the host, or the LLVM CPU name in the environment variable `TRISKELE_CPU`.

    A lower CPU (`x86-64-v3`, `x86-64-v2`, ...) is for tests of portability; results then differ by rounding at most.

    Raises
    ------
    ValueError
        If `TRISKELE_CPU` is not a plain LLVM CPU name.
    """
    return _target(os.environ.get(_CPU_VARIABLE, ""))


@cache
def _target(requested: str) -> Target:
    llvm = _binding()
    version = ".".join(map(str, llvm.llvm_version_info))
    triple = llvm.get_process_triple()
    if requested:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", requested):
            raise ValueError(f"{_CPU_VARIABLE}: must be an LLVM CPU name, got {requested!r} (for example x86-64-v3)")
        return Target(triple, requested, "", version)
    features = llvm.get_host_cpu_features()
    flat = features.flatten()
    if features.get("avx512f"):
        # Several CPU models ask LLVM for 256-bit vectors out of fear of lowered clocks; since Ice Lake 512 is faster.
        flat += ",-prefer-256-bit"
    return Target(triple, llvm.get_host_cpu_name(), flat, version)


def _machine(opt: int):
    """A fresh target machine: small code model and PIC, so that constants are addressed relative to the program
    counter in place of a 64-bit immediate each."""
    llvm = _binding()
    target = host_target()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=opt, reloc="pic", codemodel="small", jit=True
    )


def compile_object(text: str, *, opt: int = 3) -> tuple[bytes, dict[str, float]]:
    """Parse, verify, optimise and assemble a module.

    Parameters
    ----------
    text : str
        LLVM assembly with opaque pointers.
    opt : int, 0 to 3

    Returns
    -------
    bytes
        A relocatable object file: no address of this process is in it.
    dict
        Seconds spent in ``parse``, ``optimise`` and ``emit``.

    Raises
    ------
    RuntimeError
        If the text is not valid LLVM assembly (LLVM's own message).
    """
    llvm = _binding()
    marks = [time.perf_counter()]
    module = llvm.parse_assembly(text, context=llvm.create_context())
    module.triple = host_target().triple
    module.verify()
    marks.append(time.perf_counter())
    machine = _machine(opt)
    module.data_layout = str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=opt)
    tuning.loop_vectorization = tuning.slp_vectorization = opt >= 2
    tuning.loop_unrolling = tuning.loop_interleaving = opt >= 2
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    marks.append(time.perf_counter())
    code = machine.emit_object(module)
    marks.append(time.perf_counter())
    return code, dict(zip(("parse", "optimise", "emit"), (b - a for a, b in zip(marks, marks[1:], strict=False)), strict=True))


class LoadedObject:
    """Machine code mapped into this process; it stays mapped as long as this object lives."""

    _lock = threading.Lock()

    def __init__(self, code: bytes):
        llvm = _binding()
        with self._lock:
            # The llvmlite memory manager reserves one block for all sections: PIC needs code and data within 2 GB.
            shell = llvm.parse_assembly("", context=llvm.create_context())
            shell.triple = host_target().triple
            self._engine = llvm.create_mcjit_compiler(shell, _machine(0), use_lmm=True)
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Address of a function or a global variable of the module.

        Raises
        ------
        KeyError
            If the module defines no such symbol.
        """
        found = self._engine.get_function_address(name) or self._engine.get_global_value_address(name)
        if not found:
            raise KeyError(f"native module: must define {name!r}, got no such symbol")
        return found


def define_symbols(symbols: Mapping[str, int]) -> None:
    """Make addresses known by name to everything loaded afterwards (process-wide)."""
    add = _binding().add_symbol
    for name, value in symbols.items():
        add(name, value)


def address(name: str) -> int | None:
    """Address of a symbol that was defined, or that the process's own libraries export; None when unknown."""
    return _binding().address_of_symbol(name)


def load(text: str, *, opt: int = 2) -> LoadedObject:
    """Compile and load a module that lives as long as the process (thread pools may sleep inside its code)."""
    loaded = LoadedObject(compile_object(text, opt=opt)[0])
    _NEVER_FREED.append(loaded)
    return loaded
