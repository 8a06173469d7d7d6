"""Barostats: Monte Carlo, and stochastic cell rescaling."""
