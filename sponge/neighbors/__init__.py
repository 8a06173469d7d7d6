"""Neighbor lists: clusters of four atoms, sorted on a grid, and pairs of clusters within a cut-off."""

from .arrays import PairList
from .neighbor_list import NeighborList, shared_list

__all__ = ["NeighborList", "PairList", "shared_list"]
