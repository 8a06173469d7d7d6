"""Python control flow on traced values: functions are rewritten, and run with these operators."""

__all__: list[str] = []
