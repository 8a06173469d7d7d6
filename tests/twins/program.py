"""Op tables run row by row with NumPy: what the columns and recipes of `quantum.compile.ops` mean."""

import numpy as np

from triskele.quantum.compile.ops import Kind, OpColumn, Recipe


def parity(a):
    return np.array([int(v).bit_count() & 1 for v in np.ravel(a)], bool)


def op_on(state, kind, x, m, v, z, width, bits, c):
    j = np.arange(len(state))
    if kind == Kind.DIAG:
        chosen = (j & m) == v
        state[chosen] *= np.where(parity(j[chosen] & z), c[1], c[0])[(...,) + (None,) * (state.ndim - 1)]
    elif kind == Kind.PAIR:
        j = j[((j & m) == v) & ((j >> (int(x).bit_length() - 1)) & 1 == 0)]
        s = np.where(parity(j & z), -1, 1)[(...,) + (None,) * (state.ndim - 1)]
        up, down = state[j], state[j ^ x]
        state[j], state[j ^ x] = c[0] * up + s * c[1] * down, s * c[2] * up + c[3] * down
    else:
        base = j[((j & m) == v) & ((j & x) == 0)]
        index = np.array([sum(1 << b for i, b in enumerate(bits[:width]) if r >> i & 1) for r in range(1 << width)])
        old = state[base[:, None] + index[None]]
        state[base[:, None] + index[None]] = np.einsum("rc,bc...->br...", c[: 4**width].reshape(1 << width, -1), old)


def coefficients(program, values):
    flat = program.coefficients.copy()
    angles = [program.angle(i, values) for i in range(len(program.angle_constants))]
    program.fill_functions(flat, values)
    c = flat.view(complex)
    for recipe, out, source, sign, previous, width, kind, x, m, v, z, local in program.recipes.tolist():
        out, at = out // 2, source // 2
        if recipe == Recipe.PAIR_REAL:
            co, si = np.cos(angles[source] / 2), sign * np.sin(angles[source] / 2)
            c[out : out + 4] = co, -si, si, co
        elif recipe == Recipe.PAIR_IMAGINARY:
            co, si = np.cos(angles[source] / 2), sign * np.sin(angles[source] / 2)
            c[out : out + 4] = co, -1j * si, -1j * si, co
        elif recipe == Recipe.ROTATION:
            c[out : out + 2] = np.exp([-0.5j * sign * angles[source], 0.5j * sign * angles[source]])
        elif recipe == Recipe.PHASE:
            c[out : out + 2] = np.exp(1j * sign * angles[source])
        elif recipe == Recipe.PRODUCT:
            size = 1 << width
            matrix = (
                np.eye(size, dtype=complex)
                if previous < 0
                else c[previous // 2 : previous // 2 + size**2].reshape(size, size).copy()
            )
            k = int(x).bit_count()
            op_on(matrix, kind, x, m, v, z, k, [local >> 4 * i & 15 for i in range(k)], c[at:])
            c[out : out + size**2] = matrix.ravel()
        elif recipe == Recipe.CONJUGATE:
            c[out : out + width] = c[at : at + width].conj()
        else:
            c[out : out + width] = c[at : at + width] * c[previous // 2 : previous // 2 + width]
    return flat


def run(program, values=(), state=None):
    """The state after a program."""
    c = coefficients(program, np.asarray(values, float)).view(complex)
    if state is None:
        state = np.eye(1, 1 << program.num_qubits, dtype=complex)[0]
    for op in program.ops.tolist():
        at = op[OpColumn.COEFFICIENT] // 2
        op_on(
            state, op[OpColumn.KIND], *op[OpColumn.X : OpColumn.Z + 1], op[OpColumn.WIDTH], op[OpColumn.BITS :], c[at:]
        )
    return state
