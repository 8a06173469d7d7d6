"""One file per program.

Each has ``prepare(bench, threads, folder) -> run``, where ``run(steps)`` returns the seconds that many steps took.
"""
