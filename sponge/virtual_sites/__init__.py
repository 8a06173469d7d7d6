"""Virtual sites: particles without mass whose positions are functions of other atoms' positions."""

from .sites import (
    LocalCoordinates,
    OutOfPlane,
    ThreeParticleAverage,
    TwoParticleAverage,
    VirtualSite,
    WeightedAverage,
    place_all,
)

__all__ = [
    "LocalCoordinates",
    "OutOfPlane",
    "ThreeParticleAverage",
    "TwoParticleAverage",
    "VirtualSite",
    "WeightedAverage",
    "place_all",
]
