"""One module a tool, as `tests.benchmarks.process` wants it."""
