"""Linear algebra: the operations of `numpy.linalg`."""

__all__: list[str] = []
