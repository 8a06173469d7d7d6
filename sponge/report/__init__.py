"""Reporters: what a run writes while it goes on. Each has `every`, and acts at steps that are multiples of it."""

from triskele.sponge.report.callback import Callback
from triskele.sponge.report.checkpoint import Checkpoint
from triskele.sponge.report.csv import CSV
from triskele.sponge.report.dcd import DCD
from triskele.sponge.report.h5md import H5MD
from triskele.sponge.report.log import Log
from triskele.sponge.report.pdb import PDB
from triskele.sponge.report.reporter import FileReporter, Reporter
from triskele.sponge.report.variables import Variables
from triskele.sponge.report.xtc import XTC

__all__ = ["CSV", "DCD", "H5MD", "PDB", "XTC", "Callback", "Checkpoint", "FileReporter", "Log", "Reporter", "Variables"]
