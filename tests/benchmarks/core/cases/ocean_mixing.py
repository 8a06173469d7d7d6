"""Isoneutral mixing: slopes of density surfaces and the diffusivities along them, a million cells (pyhpc-benchmarks'
second).

Griffies, Gnanadesikan, Pacanowski, Larichev, Dukowicz, Smith 1998, doi:10.1175/1520-0485(1998)028<0805:IDIAZC>2.0.CO;2,
with slopes tapered as in Danabasoglu and McWilliams 1995. Indices are longitude, latitude, depth; ip, jp and kr choose
the four triads around a face. Only cells two or more from the horizontal edge are computed.
"""

import numpy

from tests.benchmarks.case import Case
from tests.benchmarks.core.cases.ocean_state import cells

STEEPEST, WIDTH, K_STEEP, TINY = 1e-3, 1e-3, 50.0, 1e-20
RHO, GRAVITY, EXPANSION, CABBELING, THERMOBARIC, CONTRACTION, WARM = 1024.0, 9.81, 1.67e-4, 1e-5, 1.1e-8, 0.78e-3, 9.85


def data():
    rng, (nx, ny, nz) = numpy.random.default_rng(10), cells()
    shape = nx, ny, nz
    masks = {k: (rng.random(shape) < 0.8).astype(float) for k in ("mask_t", "mask_u", "mask_v", "mask_w")}
    sizes = {"dxt": nx, "dxu": nx, "dyt": ny, "dyu": ny, "dzt": nz, "dzw": nz, "cost": ny, "cosu": ny, "zt": nz}
    lengths = {k: rng.uniform(0.5, 1.5, n) for k, n in sizes.items()}
    return ({**masks, **lengths, **{k: rng.standard_normal(shape) for k in ("salt", "temp", "k_iso")}},)


case = Case("isoneutral_mixing", data, tolerance=1e-8, flops=2**20 * 16 * 50, bytes=8 * (7 + 19) * 2**20)


@case.program("triskele", "jax", "torch", "numpy")
def diffusivities(tool):
    np = tool.np

    def taper(slope):
        return 0.5 * (1 + np.tanh((STEEPEST - np.abs(slope)) / WIDTH))

    def face(g, axis):
        """Diffusivity of the eastern (axis 0) or northern (axis 1) faces, and their four tapered slopes."""

        def at(a, shift, z=slice(None)):
            along, across = slice(1 + shift, a.shape[axis] - 2 + shift), slice(2, -2)
            return a[(along, across, z) if axis == 0 else (across, along, z)]

        d_t, d_s, mask = (g["tx"], g["sx"], g["mask_u"]) if axis == 0 else (g["ty"], g["sy"], g["mask_v"])
        d_t, d_s, mask = at_face(d_t, axis), at_face(d_s, axis), at(mask, 0)
        pair = at(g["k_iso"], 0) + at(g["k_iso"], 1)
        local = np.concatenate([0.5 * pair[:, :, :1], 0.25 * (pair[:, :, 1:] + pair[:, :, :-1])], axis=2)
        total, slopes = 0.0, []
        for kr in (0, 1):
            lower, upper = slice(1 - kr, None), slice(None, None if kr else -1)
            for ip in (0, 1):
                by_t, by_s = at(g["by_t"], ip, lower), at(g["by_s"], ip, lower)
                across = by_t * d_t[:, :, lower] + by_s * d_s[:, :, lower]
                down = by_t * at(g["tz"], ip, upper) + by_s * at(g["sz"], ip, upper)
                slope = -across / (np.minimum(0.0, down) - TINY)
                fade, open_ = taper(slope), mask[:, :, lower]
                added = g["dzw"][upper] * open_ * np.maximum(K_STEEP, local[:, :, lower] * fade)
                widths = ((0, 0), (0, 0), (1 - kr, 0))
                total = total + np.pad(added, widths)
                slopes.append(np.pad(fade * slope * open_, widths))
        return total / (4 * g["dzt"]), slopes

    def at_face(gradient, axis):
        return gradient[1:-1, 2:-2] if axis == 0 else gradient[2:-2, 1:-1]

    def top(g):
        """Diffusivity of the upper faces, and the eight tapered slopes there."""
        inside = slice(2, -2)
        k_iso, mask = g["k_iso"][inside, inside, :-1], g["mask_w"][inside, inside, :-1]
        total, slopes = [0.0, 0.0], []
        for kr in (0, 1):
            z = slice(kr, None if kr else -1)
            by_t, by_s = g["by_t"][inside, inside, z], g["by_s"][inside, inside, z]
            down = by_t * g["tz"][inside, inside, :-1] + by_s * g["sz"][inside, inside, :-1]
            steep = np.minimum(0.0, down) - TINY
            for axis, (t, s) in enumerate((("tx", "sx"), ("ty", "sy"))):
                for ip in (0, 1):
                    n = g[t].shape[axis]
                    along = slice(1 + ip, n - 2 + ip)
                    where = (along, inside, z) if axis == 0 else (inside, along, z)
                    slope = -(by_t * g[t][where] + by_s * g[s][where]) / steep
                    fade = taper(slope)
                    size = g["dxu"][along][:, None, None] if axis == 0 else (g["cosu"] * g["dyu"])[along][:, None]
                    total[axis] = total[axis] + size * k_iso * fade * slope**2 * mask
                    slopes.append(fade * slope * mask)
        area = 4 * (g["dyt"] * g["cost"])[inside][:, None]
        return total[0] / (4 * g["dxt"][inside][:, None, None]) + total[1] / area, slopes

    def run(g):
        temp, salt, depth = g["temp"], g["salt"], np.abs(g["zt"])
        pressure = EXPANSION * (1 + THERMOBARIC * GRAVITY * depth * RHO)
        east, north, below = g["dxu"][:-1][:, None, None] * g["cost"][:, None], g["dyu"][:-1][:, None], g["dzw"][:-1]
        g = {
            **g,
            "by_t": -g["mask_t"] * RHO * (CABBELING * (temp - WARM) + pressure),
            "by_s": g["mask_t"] * (CONTRACTION * RHO),
        }
        for name, a in (("t", temp), ("s", salt)):
            g[name + "x"] = g["mask_u"][:-1] * (a[1:] - a[:-1]) / east
            g[name + "y"] = g["mask_v"][:, :-1] * (a[:, 1:] - a[:, :-1]) / north
            change = g["mask_w"][:, :, :-1] * (a[:, :, 1:] - a[:, :, :-1]) / below
            g[name + "z"] = np.pad(change, ((0, 0), (0, 0), (0, 1)))
        return face(g, 0), face(g, 1), top(g)

    return run
