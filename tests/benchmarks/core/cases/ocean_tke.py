"""Turbulent kinetic energy: one step of vertical mixing, diffusion and advection, a million cells (pyhpc-benchmarks'
third).

Gaspar, Gregoris, Lefevre 1990, doi:10.1029/JC095iC09p16179, with superbee advection and an implicit tridiagonal solve
in every column. Only cells two or more from the horizontal edge are computed; arrays named `inner` hold those.
"""

import numpy

from tests.benchmarks.case import Case
from tests.benchmarks.core.cases.ocean_state import cells

STEP, DISSIPATION, DIFFUSION, TINY, AB = 1.0, 0.7, 2000.0, 1e-20, 0.1
INNER = (slice(2, -2), slice(2, -2))


def data():
    rng, (nx, ny, nz) = numpy.random.default_rng(11), cells()
    shape = nx, ny, nz
    g = {k: (rng.random(shape) < 0.8).astype(float) for k in ("mask_u", "mask_v", "mask_w")}
    sizes = {"dxt": nx, "dxu": nx, "dyt": ny, "dyu": ny, "dzt": nz, "dzw": nz, "cost": ny, "cosu": ny}
    g |= {k: rng.uniform(0.5, 1.5, n) for k, n in sizes.items()}
    g |= {k: rng.uniform(0.1, 1, shape) for k in ("kappa", "mixing_length")}
    g |= {k: rng.standard_normal(shape) for k in ("u", "v", "w", "tke", "tke_next", "before", "forcing")}
    return ({**g, "surface": rng.standard_normal((nx, ny)), "bottom": rng.integers(0, nz, (nx, ny))},)


case = Case("turbulent_kinetic_energy", data, tolerance=1e-9, flops=2**20 * 250, bytes=8 * 15 * 2**20)


@case.program("triskele", "jax", "torch", "numpy")
def energy_step(tool):
    np = tool.np

    def tridiagonal(a, b, c, d):
        """Solve for x in every column: a x[k-1] + b x[k] + c x[k+1] = d, by elimination upwards and back."""

        def eliminate(above, row):
            a, b, c, d = row
            pivot = 1 / (b - a * above[0])
            new = c * pivot, (d - a * above[1]) * pivot
            return new, new

        def substitute(x, row):
            x = row[1] - row[0] * x
            return x, x

        depth_first = tuple(np.moveaxis(m, 2, 0) for m in (a, b, c, d))
        nothing = np.zeros_like(depth_first[0][0])
        _, rows = tool.scan(eliminate, (nothing, nothing), depth_first)
        _, x = tool.scan(substitute, nothing, tuple(np.flip(row, (0,)) for row in rows))
        return np.moveaxis(np.flip(x, (0,)), 0, 2)

    def mix(g):
        """Implicit vertical mixing and dissipation."""
        tke, dzt, dzw = g["tke"][INNER], g["dzt"], g["dzw"]
        kappa, length, bottom = g["kappa"][INNER], g["mixing_length"][INNER], g["bottom"][INNER]
        root = np.sqrt(np.maximum(0.0, tke))
        delta = 0.5 * STEP / dzt[1:] * (kappa[:, :, :-1] + kappa[:, :, 1:])
        height = np.concatenate([dzw[:-1], 0.5 * dzw[-1:]])
        none = np.zeros_like(delta[:, :, :1])
        below, above = np.concatenate([none, delta], axis=2), np.concatenate([delta, none], axis=2)
        lost = STEP * DISSIPATION * root / length
        d = tke + STEP * g["forcing"][INNER]
        top = d[:, :, -1:] + (STEP * g["surface"][INNER] / (0.5 * dzw[-1]))[:, :, None]
        d = np.concatenate([d[:, :, :-1], top], axis=2)
        level, floor = np.arange(tke.shape[2]), bottom[:, :, None] - 1
        water, edge = (floor >= 0) & (level >= floor), (floor >= 0) & (level == floor)
        a = np.where(water & ~edge, -below / height, 0.0)
        b = np.where(edge, 1 + above / dzw + lost, np.where(water, 1 + (above + below) / height + lost, 1.0))
        solution = tridiagonal(a, b, np.where(water, -above / dzw, 0.0), np.where(water, d, 0.0))
        return np.where(water, solution, g["tke_next"][INNER])

    def diffuse(g):
        """Tendency by lateral diffusion."""
        tke, cost = g["tke"], g["cost"][:, None]
        east = DIFFUSION * (tke[1:] - tke[:-1]) / (cost * g["dxu"][:-1][:, None, None]) * g["mask_u"][:-1]
        slope = DIFFUSION * (tke[:, 1:] - tke[:, :-1]) / g["dyu"][:-1][:, None]
        north = slope * g["mask_v"][:, :-1] * g["cosu"][:-1][:, None]
        return divergence(g, east[1:-1, 2:-2], north[2:-2, 1:-1])

    def divergence(g, east, north):
        cost = g["cost"][2:-2][:, None]
        x = (east[1:] - east[:-1]) / (cost * g["dxt"][2:-2][:, None, None])
        return g["mask_w"][INNER] * (x + (north[:, 1:] - north[:, :-1]) / (cost * g["dyt"][2:-2][:, None]))

    def superbee(velocity, tke, mask, spacing, axis):
        """Flux through the faces between cells 1 and n - 1 along `axis`, of arrays already cut along the others."""

        def at(a, shift):
            part = slice(1 + shift, a.shape[axis] - 2 + shift)
            return a[(slice(None),) * axis + (part,)]

        before, here, after, beyond = (at(tke, shift) for shift in (-1, 0, 1, 2))
        wet_before, wet, wet_after = (at(mask, s) * at(mask, s + 1) for s in (-1, 0, 1))
        next_, jump, last = (beyond - after) * wet_after, (after - here) * wet, (here - before) * wet_before
        velocity = at(velocity, 0)
        courant = np.abs(velocity * STEP / spacing)
        ratio = np.where(velocity > 0, last, next_) / np.where(np.abs(jump) < TINY, TINY, jump)
        limit = np.maximum(0.0, np.maximum(np.minimum(1.0, 2 * ratio), np.minimum(2.0, ratio)))
        return 0.5 * (velocity * (after + here) - np.abs(velocity) * (1 - limit + courant * limit) * jump)

    def advect(g):
        """Tendency by advection with the flow."""
        rows, columns = (slice(None), slice(2, -2)), (slice(2, -2), slice(None))
        spacing = g["cost"][2:-2][:, None] * g["dxt"][1:-2][:, None, None]
        east = superbee(g["u"][rows], g["tke"][rows], g["mask_w"][rows], spacing, 0)
        north = (g["cosu"][:, None] * g["v"])[columns]
        spacing = (g["cost"] * g["dyt"])[1:-2][:, None]
        north = superbee(north, g["tke"][columns], g["mask_w"][columns], spacing, 1)
        ends = ((0, 0), (0, 0), (1, 1))
        up = superbee(*(np.pad(g[k][INNER], ends) for k in ("w", "tke", "mask_w")), g["dzw"][:-1], 2)
        up = np.pad(up, ends)
        height = np.concatenate([g["dzw"][:-1], 0.5 * g["dzw"][-1:]])
        return -divergence(g, east, north) - (up[:, :, 1:] - up[:, :, :-1]) / height

    def run(g):
        mixed = mix(g)
        top = mixed[:, :, -1]
        correction = np.where(top < 0, -top * 0.5 * g["dzw"][-1] / STEP, 0.0)
        mixed = np.concatenate([mixed[:, :, :-1], np.maximum(0.0, mixed[:, :, -1:])], axis=2)
        tendency = advect(g)
        next_ = mixed + STEP * diffuse(g) + STEP * ((1.5 + AB) * tendency - (0.5 + AB) * g["before"][INNER])
        return next_, tendency, correction

    return run
