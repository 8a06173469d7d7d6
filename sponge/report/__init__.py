"""Reporters: output of a running simulation. Each has `every`, and acts at steps that are multiples of it."""

from .callback import Callback
from .checkpoint import Checkpoint
from .csv import CSV
from .dcd import DCD
from .gro import GRO
from .h5md import H5MD
from .log import Log
from .netcdf import NetCDF
from .pdb import PDB
from .reporter import FileReporter, Reporter
from .trr import TRR
from .variables import Variables
from .xtc import XTC

__all__ = [
    "CSV",
    "DCD",
    "GRO",
    "H5MD",
    "PDB",
    "TRR",
    "XTC",
    "Callback",
    "Checkpoint",
    "FileReporter",
    "Log",
    "NetCDF",
    "Reporter",
    "Variables",
]
