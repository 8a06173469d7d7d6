"""Checks for gates and simulators of your own."""

from .gate import check_gate as check_gate
from .simulator import check_simulator as check_simulator
