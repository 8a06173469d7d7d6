"""Variational algorithms, one a file: build the object, `run()` it, get a frozen result."""
