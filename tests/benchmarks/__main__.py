"""`python -m tests.benchmarks core [--case NAME ...] [--threads 1,2] [--tools triskele,jax]`: one table of ratios.

`python -m tests.benchmarks sponge` does the same for molecular dynamics, `... quantum` for quantum circuits, and `...
reinforce` for reinforcement learning, with options of their own (`--help`).
"""

import argparse
import importlib
import sys

from tests.benchmarks import case as registry
from tests.benchmarks import table
from tests.benchmarks.run import machine_peaks, run_case
from tests.benchmarks.tools import TOOLS


def main():
    if sys.argv[1:2] in (["sponge"], ["quantum"], ["reinforce"], ["train"]):
        return importlib.import_module(f"tests.benchmarks.{sys.argv[1]}.__main__").main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("field", choices=["core"])
    parser.add_argument("--case", nargs="*", default=[""], help="names or their beginnings; all when left out")
    parser.add_argument("--threads", default="1,2", help="thread counts, separated by commas")
    parser.add_argument("--tools", default=",".join(TOOLS), help="tools, separated by commas")
    options = parser.parse_args()

    cases = registry.load(options.field)
    chosen = [case for name, case in cases.items() if name.startswith(tuple(options.case))]
    tools = options.tools.split(",")
    if not chosen or not set(tools) <= set(TOOLS):
        sys.exit(f"no such case or tool; cases: {', '.join(cases)}; tools: {', '.join(TOOLS)}")

    rows, advantages, imports, failures = [], {}, {}, []
    for threads in map(int, options.threads.split(",")):
        peaks = machine_peaks(threads)
        for case in chosen:
            print(f"{case.name}, {threads} thread(s)", file=sys.stderr, flush=True)
            results = run_case(options.field, case, tools, threads)
            rows.append(table.row(case.name, threads, case, results, peaks))
            advantages[case.name, threads] = table.advantage(results)
            for tool, result in results.items():
                if result.times:
                    imports.setdefault(tool, []).append(result.imported)
            failures += [f"{case.name}, {tool}: {r.failure}" for tool, r in results.items() if r.failure]
    print("Ratios are times over triskele's (above 1x: triskele is faster); times are medians.\n")
    print(table.show(rows))
    print("\n" + table.summary(advantages, imports))
    if failures:
        print("\nFailures:\n" + "\n".join(failures))
        sys.exit(1)


if __name__ == "__main__":
    main()
