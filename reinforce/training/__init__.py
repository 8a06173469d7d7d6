"""Shared parts of all agents: training loop, evaluation, reports, checkpoints, running statistics."""
