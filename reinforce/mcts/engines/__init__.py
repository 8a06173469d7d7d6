"""Engines: the Python side of searches, one for each way in which positions are valued."""
