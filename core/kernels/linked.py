"""How functions are compiled that other compiled functions alone call.

Numba optimizes each function and makes machine code of it before it links the function into its callers, which are
optimized with it again. The first half of this work is a third of the time that compilation takes, and nothing uses its
result. Here a function ends as LLVM IR, for its callers to optimize.
"""

from __future__ import annotations

from functools import cache

__all__ = ["linked_compiler"]


@cache
def linked_compiler() -> type:
    """Return the class for `numba.njit(pipeline_class=...)`; what it compiles cannot be called from Python."""
    from numba import _dynfunc
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import PassManager, register_pass
    from numba.core.typed_passes import NativeLowering

    class Library(JITCodeLibrary):
        def _optimize_final_module(self):
            pass

        def _finalize_final_module(self):  # as Numba's, without machine code
            self._finalize_dynamic_globals()
            self._verify_declare_only_symbols()
            self._finalized = True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(NativeLowering):
        _name = "lowering_for_callers"

        def run_pass(self, state):
            state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.flags.no_compile = True
            super().run_pass(state)
            if hooks := getattr(state.library, "_reload_init", None):  # later versions of Numba
                state.reload_init.extend(hooks)
            result = state["cr"]
            module, name = result.fndesc.lookup_module(), state.func_id.func_name
            # by which Numba finds the callee; it has no address
            entry = _dynfunc.make_function(module, name, "", 0, result.env, (state.library,))
            state.targetctx.insert_user_function(entry, result.fndesc, [state.library])
            state["cr"] = result._replace(cfunc=entry)
            return True

    class Compiler(CompilerBase):
        def define_pipelines(self):
            usual = DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes = PassManager("functions for callers")
            passes.passes.extend((Lowering if one is NativeLowering else one, text) for one, text in usual.passes)
            passes.finalize()
            return [passes]

    return Compiler
