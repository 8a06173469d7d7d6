"""Output for people: plots, progress bars, reports and short representations."""

__all__: list[str] = []
