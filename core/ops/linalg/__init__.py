"""Linear algebra: the operations of `numpy.linalg`."""
