"""Elementwise functions of calculus: exponentials, logarithms, circles and hyperbolas, roots."""

from __future__ import annotations

import numpy as np

from triskele.core.ops.define import elementwise

ANY, POSITIVE, UNIT = (-2.0, 2.0), (0.3, 3.0), (-0.9, 0.9)

exp = elementwise("exp", np.exp, d=(lambda out, x: out,), emit="exp", domain=(ANY,), flops=15)
log = elementwise("log", np.log, d=(lambda out, x: 1 / x,), emit="log", domain=(POSITIVE,), flops=20)
sqrt = elementwise("sqrt", np.sqrt, d=(lambda out, x: 0.5 / out,), emit="sqrt", domain=(POSITIVE,))
sin = elementwise("sin", np.sin, d=(lambda out, x: np.cos(x),), emit="sin", domain=(ANY,), flops=15)
cos = elementwise("cos", np.cos, d=(lambda out, x: -np.sin(x),), emit="cos", domain=(ANY,), flops=15)
tanh = elementwise("tanh", np.tanh, d=(lambda out, x: 1 - out * out,), emit="tanh", domain=(ANY,), flops=20)
