"""Matches of searches, policies and people against each other."""
