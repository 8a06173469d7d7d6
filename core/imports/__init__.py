"""How packages find their modules: lazy faces, discovery by folder, and optional packages."""

__all__: list[str] = []
