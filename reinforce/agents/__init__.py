"""Agents, one file each: hyper-parameters, networks, collection, targets and updates, from top to bottom."""
