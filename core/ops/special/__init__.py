"""Special functions: the operations of `scipy.special`."""
