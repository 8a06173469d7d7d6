"""`PDB`: structures that every viewer opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from triskele.sponge import box as boxes
from triskele.sponge.errors import ReporterError
from triskele.sponge.report.reporter import FileReporter

if TYPE_CHECKING:
    from triskele.sponge.simulation import Simulation
    from triskele.sponge.topology import Topology

__all__ = ["PDB", "pdb_text"]

_POLYMER = set("ALA ARG ASH ASN ASP ASX CYM CYS CYX GLH GLN GLU GLX GLY HID HIE HIP HIS HSD HSE HSP HYP ILE LEU LYN LYS MET "
               "PHE PRO SER THR TRP TYR VAL ACE NME NHE NH2 A C G U I DA DC DG DT DI".split())
_SYMBOLS = ("EP H HE LI BE B C N O F NE NA MG AL SI P S CL AR K CA SC TI V CR MN FE CO NI CU ZN GA GE AS SE BR KR RB SR Y ZR NB "
            "MO TC RU RH PD AG CD IN SN SB TE I XE CS BA LA CE PR ND PM SM EU GD TB DY HO ER TM YB LU HF TA W RE OS IR PT AU HG "
            "TL PB BI PO AT RN FR RA AC TH PA U").split()


class PDB(FileReporter):
    """Writes every report as a model of one PDB file (wwPDB format 3.3).

    Numbers of atoms and residues that do not fit their columns start again at 0, as is usual.

    Parameters
    ----------
    path : str or path
    every : int
        In steps.

    Raises
    ------
    ReporterError
        While running, if a coordinate does not fit its eight columns.
    """

    def header(self, sim: Simulation) -> bytes:
        """One remark."""
        return b"REMARK   1 WRITTEN BY TRISKELE.SPONGE, POSITIONS ARE NOT WRAPPED INTO THE BOX\n"

    def record(self, sim: Simulation, step: int) -> bytes:
        """One model."""
        text = pdb_text(sim.system.topology, sim.positions, sim.box, where=self._name)
        return f"MODEL {(step // self.every) % 100_000_000:8d}\n{text}ENDMDL\n".encode()

    def footer(self) -> bytes:
        """The end of the file."""
        return b"END\n"


def pdb_text(topology: Topology, positions: np.ndarray, box: np.ndarray | None, where: str = "pdb") -> str:
    """CRYST1, ATOM, HETATM and TER records of one structure; positions [n, 3] and box in nm."""
    lines = []
    if box is not None:
        lengths, angles = boxes.angles_and_lengths(box)
        lines.append("CRYST1{:9.3f}{:9.3f}{:9.3f}{:7.2f}{:7.2f}{:7.2f} P 1           1".format(*(10 * lengths), *np.degrees(angles)))
    xyz = np.round(10 * np.asarray(positions), 3)
    if not (np.all(xyz > -999.9995) and np.all(xyz < 9999.9995)):
        bad = int(np.argmax(~((xyz > -999.9995) & (xyz < 9999.9995)).all(1)))
        raise ReporterError(f"{where}: coordinates must lie between -99.9 and 999.9 nm, got {positions[bad].tolist()} for "
                            f"{topology.describe(bad)}")
    serial, residue = 0, topology.residue_index
    for i, (x, y, z) in enumerate(xyz.tolist()):
        r = residue[i]
        name, resname = str(topology.names[i]), str(topology.residue_names[r])
        symbol = _SYMBOLS[topology.elements[i]] if 0 < topology.elements[i] < len(_SYMBOLS) else ""
        # names of elements with one letter begin in the second of the four columns
        name = f" {name:<3}" if len(name) < 4 and len(symbol) < 2 else f"{name:<4.4}"
        kind = "ATOM  " if resname in _POLYMER else "HETATM"
        chain = str(topology.chain_ids[topology.chain_index[r]])[:1] or " "
        serial += 1
        lines.append(f"{kind}{serial % 100_000:5d} {name} {resname[:4]:>3} {chain}".ljust(22) if len(resname) < 4 else
                     f"{kind}{serial % 100_000:5d} {name} {resname[:4]}{chain}")
        lines[-1] += f"{_residue_id(topology.residue_ids[r])}   {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00          {symbol:>2}"
        last = i + 1 == len(xyz) or topology.chain_index[residue[i + 1]] != topology.chain_index[r]
        if last and resname in _POLYMER:
            serial += 1
            lines.append(f"TER   {serial % 100_000:5d}      {resname[:4]:>3} {chain}{_residue_id(topology.residue_ids[r])}")
    return "\n".join(lines) + "\n"


def _residue_id(text) -> str:
    """Number and insertion code in five columns."""
    text = str(text)
    number, code = (text, " ") if text.lstrip("-").isdigit() else (text[:-1], text[-1:])
    return f"{int(number) % 10_000 if int(number) >= 0 else number:>4}{code}" if number.lstrip("-").isdigit() else "   1 "
