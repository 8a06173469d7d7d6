"""Trajectories of files and of other programs, read frame by frame."""

__all__: list[str] = []
