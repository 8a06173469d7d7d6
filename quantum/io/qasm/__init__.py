"""OpenQASM 2 and 3, read and written."""
