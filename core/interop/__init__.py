"""Functions of the core as functions of PyTorch and JAX, with their gradients."""

__all__: list[str] = []
