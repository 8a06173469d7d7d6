"""The one table: how many times longer each peer takes than triskele."""

import math
from statistics import median

from tests.benchmarks.machine import limit

PEERS = ("jax", "torch", "autograd", "numpy", "numba")
RIVALS = ("jax", "torch")


def duration(seconds):
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):  # noqa: B007 (the last one serves all below)
        if seconds >= unit:
            break
    return f"{seconds / unit:.3g} {name}"


def row(name, threads, case, results, peaks):
    """Cells of one case. Ratios are medians over triskele's median; times where triskele has none."""
    mine = results.get("triskele")
    mine = mine if mine and mine.times else None

    def cell(result, value, scale):
        if result is None:
            return "-"
        if not result.times:
            return "failed"
        return f"{value(result) / scale:.2f}x" if mine else duration(value(result))

    def peer(tool):
        return cell(results.get(tool), lambda r: r.steady, mine.steady if mine else 1.0)

    least = limit(case, peaks)
    cells = [name, str(threads)]
    cells.append(
        f"{duration(mine.steady)} ({duration(min(mine.times))})" if mine else cell(results.get("triskele"), None, 1)
    )
    cells += [peer(tool) for tool in PEERS]
    cells.append("-" if least is None else f"{least / mine.steady:.2f}x" if mine else duration(least))
    jax = results.get("jax")
    jax = jax if jax and jax.times else None
    cells.append(f"{duration(mine.cold) if mine else '-'} / {duration(jax.cold) if jax else '-'}")
    cells.append(duration(mine.warm) if mine else "-")
    cells.append(" / ".join(f"{r.memory / 2**20:.0f}" if r else "-" for r in (mine, jax)))
    return cells


HEADER = (
    "case",
    "threads",
    "triskele (min)",
    *PEERS,
    "limit",
    "cold: triskele / jax",
    "warm disk",
    "MiB: triskele / jax",
)


def advantage(results):
    """Time of the faster of JAX and PyTorch over triskele's, or None where one side is missing."""
    mine = results.get("triskele")
    rivals = [results[t].steady for t in RIVALS if t in results and results[t].times]
    return min(rivals) / mine.steady if mine and mine.times and rivals else None


def show(rows):
    """The rows as one Markdown table, ready for the README."""
    rows = [HEADER, *rows]
    widths = [max(len(r[k]) for r in rows) for k in range(len(HEADER))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(r, widths)) + " |" for r in rows]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def means(advantages, rivals="best peer"):
    """Lines with the geometric mean and the least favorable case of `{(case, threads): advantage}`."""
    lines = []
    for threads in sorted({key[1] for key in advantages}):
        found = {name: a for (name, t), a in advantages.items() if t == threads and a is not None}
        if found:
            mean = math.exp(sum(map(math.log, found.values())) / len(found))
            worst = min(found, key=found.get)
            lines.append(
                f"{threads} thread(s), {len(found)} cases: geometric mean of {rivals} / triskele "
                f"{mean:.2f}x, least {found[worst]:.2f}x ({worst})"
            )
    return lines


def summary(advantages, imports):
    """The geometric means of `{(case, threads): advantage}`, and the seconds of every import by tool."""
    return "\n".join(
        [
            *means(advantages, "best(jax, torch)"),
            "import: " + ", ".join(f"{tool} {duration(median(times))}" for tool, times in imports.items()),
        ]
    )
