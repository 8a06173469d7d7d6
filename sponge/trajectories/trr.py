"""TRR files of GROMACS, MDTraj, MDAnalysis and `sponge.TRR`, read frame by frame."""

from .. import trr_codec
from .xdr import XDRReader

__all__ = ["TRRReader"]


class TRRReader(XDRReader):
    """Frames of a TRR file that have positions, in single or double precision."""

    codec, kind = trr_codec, "TRR"
