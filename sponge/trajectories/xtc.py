"""XTC files of GROMACS, MDTraj, MDAnalysis and `sponge.XTC`, read frame by frame."""

from .. import xtc_codec
from .xdr import XDRReader

__all__ = ["XTCReader"]


class XTCReader(XDRReader):
    """Frames of an XTC file."""

    codec, kind = xtc_codec, "XTC"
