"""Special functions: the operations of `scipy.special`."""

__all__: list[str] = []
