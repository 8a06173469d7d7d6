"""One module a tool: `modules` that it needs, and `prepare(bench, threads) -> run, read`.

`run()` does the work once and returns anything; `read` makes a list of NumPy arrays of that, outside of the timing.
"""
