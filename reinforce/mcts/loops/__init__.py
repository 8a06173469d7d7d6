"""Compiled loops of searches: templates that take the functions of a game, a policy, an evaluator and a backup."""
