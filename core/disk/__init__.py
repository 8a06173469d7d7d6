"""Files: what is saved, the cache of compiled code, and how they are written."""

__all__: list[str] = []
