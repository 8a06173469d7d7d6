"""Machine code of functions of one element, by name."""

__all__: list[str] = []
