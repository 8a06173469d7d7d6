"""Conformance checks of games and environments."""
