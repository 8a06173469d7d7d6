"""Control flow that stays control flow: `cond`, `switch`, `scan`, `while_loop`, `fori_loop`.

Each is a primitive of kind ``"control"`` that owns its bodies as Graphs in its parameters; captured Tensors are inputs
like the others. On plain arrays outside all transforms the user's functions run in Python. The layouts of the
primitives are explained where they are defined: `cond`, `scan`, `while_loop`.
"""

from .cond import cond, cond_p, switch
from .scan import scan, scan_p
from .while_loop import fori_loop, while_loop, while_p

__all__ = ["cond", "cond_p", "fori_loop", "scan", "scan_p", "switch", "while_loop", "while_p"]
