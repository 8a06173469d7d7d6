"""Kernels made of templates. Numba keeps only kernels that stand in a file; one is generated, of nothing but calls."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from triskele.core.extend import Compiled, load_module

__all__ = ["wire"]

_MODULE = '''"""{title}"""
from triskele.core.extend import kernel
{imports}
'''

_KERNEL = """

@kernel({options})
def {name}({arguments}):
    return {module}.{name}({given}, {arguments})
"""


def wire(
    stem: str,  # beginning of the file's name
    title: str,  # docstring of the module, which must identify all that is given, by a hash for example
    templates: Sequence[Compiled],  # their first parameters are those of `given`, in its order, the others the kernels'
    given: dict[str, Any],  # functions, tuples of functions and constants
    follow: Sequence[ModuleType] = (),  # where the given functions come from: an edit there compiles the kernels again
    **options: bool,  # of `kernel`
) -> Any:
    """Return a module of kernels, each of which calls the template of its name with these functions and constants."""
    homes = sorted({t.__module__ for t in templates} | {m.__name__ for m in follow})
    text = _MODULE.format(
        title=title, imports="\n".join("from {} import {}".format(*home.rsplit(".", 1)) for home in homes)
    )
    for t in templates:
        arguments = list(inspect.signature(t.py_func).parameters)[len(given) :]
        text += _KERNEL.format(
            name=t.__name__,
            arguments=", ".join(arguments),
            given=", ".join(given),
            module=t.__module__.rsplit(".", 1)[1],
            options=", ".join(f"{k}={v}" for k, v in options.items()),
        )
    return load_module(text, stem, given)
