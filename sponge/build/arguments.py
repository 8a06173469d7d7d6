"""Checks of what functions that build systems are given."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..load.structure import Structure
from ..system import System

__all__ = ["check_bool", "check_forcefield", "check_structure"]


def check_bool(given: Any, where: str) -> None:
    """Raise a TypeError that begins with `where` unless `given` is True or False.

    >>> check_bool("no", "solvate: neutralize")
    Traceback (most recent call last):
    TypeError: solvate: neutralize must be True or False, got 'no'
    """
    if not isinstance(given, (bool, np.bool_)):
        raise TypeError(f"{where} must be True or False, got {given!r:.60}")


def check_structure(given: Any, where: str) -> None:
    """Raise a TypeError that begins with `where` unless `given` is a Structure or a System.

    >>> check_structure("protein.pdb", "solvate: structure")
    Traceback (most recent call last):
    TypeError: solvate: structure must be a Structure, got str (read it with sponge.read_pdb)
    """
    if not isinstance(given, (Structure, System)):
        hint = " (read it with sponge.read_pdb)" if isinstance(given, (str, os.PathLike)) else ""
        raise TypeError(f"{where} must be a Structure, got {type(given).__name__}{hint}")


def check_forcefield(given: Any, where: str) -> None:
    """Raise a TypeError that begins with `where` unless `given` is a name or path, or a list or tuple of these.

    >>> check_forcefield(["amber14/tip3p", 3], "solvate: forcefield")
    Traceback (most recent call last):
    TypeError: solvate: forcefield must be names or paths, got int
    """
    for one in given if isinstance(given, (list, tuple)) else [given]:
        if not isinstance(one, (str, os.PathLike)):
            raise TypeError(f"{where} must be names or paths, got {type(one).__name__}")
