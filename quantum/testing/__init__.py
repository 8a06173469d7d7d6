"""Checks for user-defined gates and simulators."""

from .gate import check_gate as check_gate
from .simulator import check_simulator as check_simulator
