"""State vectors: kernels on rows of vectors, and the engine that runs schedules with them."""
