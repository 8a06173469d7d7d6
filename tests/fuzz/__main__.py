"""``python -m tests.fuzz --count 100000``: damaged files for all readers, and a list of whatever does not end as
documented.
"""

import argparse
import collections
import re
import time

from tests.fuzz import run


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="files in all (with --work: of each target)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each target")
    parser.add_argument("--targets", nargs="*", help="names of targets (default: all)")
    parser.add_argument("--save", nargs=2, metavar=("CASE", "PATH"), help="write one case of the one target to a file")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        run.work(arguments.targets, arguments.first, arguments.count)
        return
    from tests.fuzz.targets import TARGETS

    names = arguments.targets or list(TARGETS)
    if arguments.save:
        target = TARGETS[names[0]]
        with open(arguments.save[1], "wb") as file:
            file.write(run.damaged(target, target.seeds(), int(arguments.save[0])))
        return
    begin, each = time.monotonic(), max(1, -(-arguments.count // len(names)))
    cases, found = run.watch(names, arguments.first, each, lambda text: print(text, flush=True))
    kinds = collections.Counter((f.target, re.sub(r"\d+", "0", f.what)[:90]) for f in found)
    for (target, what), number in kinds.most_common():
        print(f"{number:6d} {target}: {what}")
    print(
        f"{cases} damaged files for {len(names)} readers in {time.monotonic() - begin:.0f} s: {len(found)} did not "
        f"end as documented"
    )
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
