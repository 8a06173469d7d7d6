"""Loops and branches as operations, with their derivatives."""
