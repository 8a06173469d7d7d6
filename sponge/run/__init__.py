"""A system in motion: the simulation, its loop, its guard, checkpoints and energy minimization."""
