"""The op table: what a circuit becomes before anything is computed, as rows of integers.

Bits are positions in the index j of an amplitude. There are three kinds of op:

- PAIR(x, m, v, z; a, b, c, d): for all j with ``j & m == v`` whose highest bit of x is 0, and k = j ^ x:
  ``psi_j, psi_k = a psi_j + s b psi_k, s c psi_j + d psi_k``, s = -1 where ``j & z`` has an odd number of ones, else 1.
- DIAG(m, v, z; d0, d1): all j with ``j & m == v`` are multiplied by d0, or by d1 where ``j & z`` has an odd number of
  ones.
- DENSE(bits, m, v; matrix): a matrix on the bits, where ``j & m == v``. It need not be unitary. Bit i of a row or
  column index is the bit `bits[i]`.

Coefficients are complex numbers in one flat float64 array (re, im, re, im, ...): a, b, c, d; d0, d1; the matrix by
rows. They are constants, or filled by *recipes* from the angles, in order (see `Recipe`).
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

__all__ = ["MAX_DENSE", "Builder", "Form", "Kind", "OpColumn", "Recipe", "RecipeColumn"]

MAX_DENSE = 8  # bits of a DENSE op


class Kind(IntEnum):
    """Kinds of op."""

    PAIR = 0
    DIAG = 1
    DENSE = 2


class Form(IntEnum):
    """Structure of the coefficients of a PAIR for all angles; selects cheaper kernels."""

    GENERAL = 0
    REAL = 1  # a, b, c, d real
    IMAGINARY = 2  # a, d real; b, c imaginary
    SWAP = 3  # 0, 1, 1, 0


class OpColumn(IntEnum):
    """Columns of the op table `Program.ops` (int64)."""

    KIND = 0
    FORM = 1
    X = 2  # PAIR: as above. DENSE: mask of its bits. DIAG: 0. So x is always what the op mixes.
    M = 3
    V = 4
    Z = 5
    COEFFICIENT = 6  # where its coefficients begin in the coefficient array, in floats
    WIDTH = 7  # DENSE: number of bits
    BITS = 8  # DENSE: BITS + i is bit i of the matrix's index, MAX_DENSE columns


OP_COLUMNS = OpColumn.BITS + MAX_DENSE


class Recipe(IntEnum):
    """Recipes from angles to coefficients; columns as in `RecipeColumn`. t = angles[SOURCE], sign = SIGN (1 or -1)."""

    PAIR_REAL = 0  # a = d = cos t/2; b = -sign sin t/2; c = sign sin t/2
    PAIR_IMAGINARY = 1  # a = d = cos t/2; b = c = -i sign sin t/2
    ROTATION = 2  # d0 = exp(-i sign t/2), d1 = exp(i sign t/2)
    PHASE = 3  # d0 = d1 = exp(i sign t)
    # 2**WIDTH matrix at OUT = (op with coefficients at SOURCE and local masks) @ (matrix at PREVIOUS, or 1 if -1)
    PRODUCT = 4
    CONJUGATE = 5  # WIDTH complex numbers at OUT = conjugates of those at SOURCE
    MULTIPLY = 6  # WIDTH complex numbers at OUT = those at SOURCE times those at PREVIOUS, one by one


class RecipeColumn(IntEnum):
    """Columns of the recipe table `Program.recipes` (int64)."""

    RECIPE = 0
    OUT = 1  # where the result goes, in floats
    SOURCE = 2  # an angle, or where coefficients are
    SIGN = 3  # 1 or -1
    PREVIOUS = 4
    WIDTH = 5
    KIND = 6  # PRODUCT: kind of the op whose coefficients are at SOURCE, and its masks as bits of the matrix's index
    X = 7
    M = 8
    V = 9
    Z = 10
    LOCAL = 11  # PRODUCT of a DENSE op: bit i of its index is bit (LOCAL >> 4 i) & 15 of the matrix's index


RECIPE_COLUMNS = RecipeColumn.LOCAL + 1


class Builder:
    """Op tables while they grow.

    `coefficients` is the template that recipes fill: constants are in it already. The methods `constant`, `reserve`,
    `angle` and `recipe` make coefficients, `pair`, `diagonal` and `dense` add ops that use them.
    """

    def __init__(self) -> None:
        self.ops: list[tuple[int, ...]] = []
        self.recipes: list[tuple[int, ...]] = []
        self.coefficients: list[float] = []
        # where the matrix goes, gate, angles of its parameters
        self.functions: list[tuple[int, object, tuple[int, ...]]] = []
        self.angle_terms: list[list[tuple[int, float]]] = []
        self.angle_constants: list[float] = []

    # -- coefficients: each method returns where they are

    def constant(self, values: np.ndarray) -> int:
        """Complex numbers that never change."""
        at = len(self.coefficients)
        self.coefficients += np.ascontiguousarray(values, complex).ravel().view(float).tolist()
        return at

    def reserve(self, count: int) -> int:
        """Room for `count` complex numbers."""
        at = len(self.coefficients)
        self.coefficients += [0.0] * (2 * count)
        return at

    def angle(self, terms: list[tuple[int, float]], constant: float) -> int:
        """Number of a new angle, ``constant + sum(coefficient * values[index])``."""
        self.angle_terms.append(terms)
        self.angle_constants.append(constant)
        return len(self.angle_terms) - 1

    def recipe(
        self,
        recipe: int,
        count: int,
        source: int,
        sign: int = 1,
        previous: int = -1,
        width: int = 0,
        kind: int = 0,
        x: int = 0,
        m: int = 0,
        v: int = 0,
        z: int = 0,
        local: int = 0,
    ) -> int:
        """`count` complex numbers made by a recipe."""
        at = self.reserve(count)
        self.recipes.append((recipe, at, source, sign, previous, width, kind, x, m, v, z, local))
        return at

    # -- ops

    def pair(self, x: int, m: int, v: int, z: int, coefficient: int, form: int = Form.GENERAL) -> None:
        """Add a PAIR. Bits of m and z that say nothing (the highest of x) are removed.

        Blocks of a large state do not hold all that an x of many bits mixes: there it is brought to one bit by CNOTs
        from its highest bit, and back.
        """
        pivot = 1 << (x.bit_length() - 1)
        if pivot > _LARGE and x.bit_count() > _MANY:
            chain = [1 << b for b in range(x.bit_length() - 1) if x >> b & 1]
            swap = self.constant(np.array([0, 1, 1, 0]))
            for target in chain:
                self.pair(target, pivot, pivot, 0, swap, Form.SWAP)
            self.pair(pivot, m, v, z, coefficient, form)
            for target in chain:
                self.pair(target, pivot, pivot, 0, swap, Form.SWAP)
            return
        self.ops.append((Kind.PAIR, form, x, m & ~pivot, v & ~pivot, z & ~pivot, coefficient, 1, *_NO_BITS))

    def diagonal(self, m: int, v: int, z: int, coefficient: int) -> None:
        """Add a DIAG."""
        self.ops.append((Kind.DIAG, 0, 0, m, v, z, coefficient, 0, *_NO_BITS))

    def dense(self, bits: tuple[int, ...], m: int, v: int, coefficient: int) -> None:
        """Add a DENSE."""
        x = 0
        for b in bits:
            x |= 1 << b
        k = len(bits)
        self.ops.append((Kind.DENSE, 0, x, m, v, 0, coefficient, k, *bits, *_NO_BITS[k:]))


_MANY, _LARGE = 5, 1 << 10
_NO_BITS = (-1,) * MAX_DENSE
