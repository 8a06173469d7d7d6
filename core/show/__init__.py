"""What people see: pictures, progress, reports and short texts."""

__all__: list[str] = []
