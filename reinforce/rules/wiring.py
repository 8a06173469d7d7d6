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

_KERNEL = '''

@kernel({options})
def {name}({arguments}):
    return {module}.{name}({given}, {arguments})
'''


def wire(stem: str, title: str, templates: Sequence[Compiled], given: dict[str, Any], follow: Sequence[ModuleType] = (),
         **options: bool) -> Any:
    """Make kernels, each of which calls the template of its name with the given functions and constants.

    Parameters
    ----------
    stem : str
        Beginning of the file's name.
    title : str
        Docstring of the module. It must identify all that is given, by a hash for example.
    templates : sequence of templates
        Their first parameters are those that `given` names, in its order; the others become those of the kernels.
    given : dict
        Functions, tuples of functions and constants.
    follow : sequence of modules
        Where the given functions come from: an edit there compiles the kernels again.
    **options
        Of `kernel`.

    Returns
    -------
    module
    """
    homes = sorted({t.__module__ for t in templates} | {m.__name__ for m in follow})
    text = _MODULE.format(title=title, imports="\n".join(
        "from {} import {}".format(*home.rsplit(".", 1)) for home in homes
    ))
    for t in templates:
        arguments = list(inspect.signature(t.py_func).parameters)[len(given) :]
        text += _KERNEL.format(
            name=t.__name__, arguments=", ".join(arguments), given=", ".join(given),
            module=t.__module__.rsplit(".", 1)[1], options=", ".join(f"{k}={v}" for k, v in options.items()),
        )
    return load_module(text, stem, given)
