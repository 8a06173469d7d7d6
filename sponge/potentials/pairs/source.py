"""Source of modules with kernels of pairs, made of the templates in `loops` and `kernels`."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["CLUSTER_ARGUMENTS", "function_source", "module_source"]

CLUSTER_ARGUMENTS = "chunk, pairs, params, numbers, sums, blocks, rows, flags"


def function_source(name: str, lines: list[str], numbers: int, table: bool) -> str:
    """Source of a function of r2, i, j and the constants c; with a `table`, it follows the numbers in their array."""
    lines = [f"table = c[{numbers}]", *lines] if table else lines
    body = "\n".join(f"    {line}" for line in lines).replace("N_NUMBERS", str(numbers))
    return f"\n\n@template\ndef {name}(r2, i, j, c):\n{body}\n"


def module_source(
    imports: str,  # line that imports the loops
    numbers: int,
    width: int,  # constants, which are vectors of `width` lanes
    load: str,  # source of the function that loads the parameters of atoms
    functions: str,  # sources of the functions that the loops take
    kernels: Iterable[tuple[str, str, str]],  # name, loop, and the functions that it takes
    arguments: str = CLUSTER_ARGUMENTS,
) -> str:  # of all kernels
    """Return the source of a module."""
    constants = ", ".join([*(f"simd.load_splat(numbers, {k}, {width})" for k in range(numbers)), "numbers"])
    return (
        "import numpy as np\n\nfrom triskele.core.extend import kernel, simd, template\n"
        + imports
        + f"\n\n\n@template\ndef constants(numbers):\n    return ({constants},)\n\n\n@template\n{load}\n{functions}"
        + "".join(
            f"\n\n@kernel(nogil=True)\ndef {name}({arguments}):\n    {loop}({arguments}, constants, load, {given})\n"
            for name, loop, given in kernels
        )
    )
