"""Elementwise arithmetic, comparisons and logic: one definition each, derivative and emission included."""

from __future__ import annotations

import operator

import numpy as np

from triskele.core.graph.graph import Spec
from triskele.core.graph.primitive import Primitive
from triskele.core.graph.trace import bind
from triskele.core.ops.define import MINUS_ONE, ONE, as_value, batch_elementwise, broadcast_shapes, elementwise
from triskele.core.tensor import implements, is_weak

# -- arithmetic: the implementations are Python's operators, so that Python numbers stay Python numbers -------------

ANY = (-3.0, 3.0)
add = elementwise("add", np.add, impl=operator.add, d=(ONE, ONE), emit="add", domain=(ANY, ANY), keeps_weak=True,
                  operators=("__add__", "__radd__", "__iadd__"))
subtract = elementwise("subtract", np.subtract, impl=operator.sub, d=(ONE, MINUS_ONE), emit="sub", domain=(ANY, ANY),
                       keeps_weak=True, operators=("__sub__", "__rsub__", "__isub__"))
multiply = elementwise("multiply", np.multiply, impl=operator.mul, d=(lambda out, x, y: y, lambda out, x, y: x), emit="mul",
                       domain=(ANY, ANY), keeps_weak=True, operators=("__mul__", "__rmul__", "__imul__"))
divide = elementwise("divide", np.divide, impl=operator.truediv, d=(lambda out, x, y: 1 / y, lambda out, x, y: -out / y),
                     emit="div", domain=(ANY, (0.5, 3.0)), keeps_weak=True, operators=("__truediv__", "__rtruediv__", "__itruediv__"))
negative = elementwise("negative", np.negative, impl=operator.neg, d=(MINUS_ONE,), emit="neg", domain=(ANY,), keeps_weak=True,
                       operators=("__neg__",))
floor_divide = elementwise("floor_divide", np.floor_divide, impl=operator.floordiv, emit="floordiv", domain=(ANY, (0.5, 3.0)),
                           keeps_weak=True, operators=("__floordiv__", "__rfloordiv__", "__ifloordiv__"))
remainder = elementwise("remainder", np.remainder, impl=operator.mod, d=(ONE, lambda out, x, y: -np.floor_divide(x, y)), emit="mod",
                        domain=(ANY, (0.5, 3.0)), keeps_weak=True, operators=("__mod__", "__rmod__", "__imod__"))
