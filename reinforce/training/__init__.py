"""Shared parts of all agents: training loop, evaluation, reports, checkpoints, running statistics.

Observations are normalized and clipped by the `Normalizer` of a policy.
"""
