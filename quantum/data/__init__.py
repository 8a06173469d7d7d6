"""Stored data."""
