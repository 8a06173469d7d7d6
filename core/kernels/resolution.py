"""Remember, while a kernel compiles, which implementation Numba chose for an operation on given types.

Numba repeats its search for the implementation of `operator.add`, of `range` or of an array item at every use in the
source, in every round of type inference and in code generation. This takes a quarter of the compile time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = ["remembered"]


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """Search for each operation, types and options once inside the block.

    The results are forgotten at the end of the block, so that an overload registered between two compilations is seen.
    """
    from numba.core.targetconfig import ConfigStack
    from numba.core.types.functions import BaseFunction

    search = BaseFunction.get_call_type
    found: dict[tuple, tuple] = {}
    options: list[dict] = []  # those met, because they cannot be hashed

    def get_call_type(self, context, args, kws):
        flags = ConfigStack.top_or_none()
        chosen = {} if flags is None else flags._values
        if chosen not in options:
            options.append(dict(chosen))
        key = self, context, tuple(args), tuple(kws.items()), options.index(chosen)
        if key in found:
            signature, self._impl_keys[signature.args] = found[key]
            return signature
        signature = search(self, context, args, kws)
        # a type that inference has still to complete, such as that of an empty list, may resolve differently later
        if signature is not None and all(a.is_precise() for a in (*args, *kws.values())):
            found[key] = signature, self._impl_keys[signature.args]
        return signature

    BaseFunction.get_call_type = get_call_type
    try:
        yield
    finally:
        BaseFunction.get_call_type = search
