"""Machine code of functions of one element, by name."""
