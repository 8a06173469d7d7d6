"""Checks that a potential or an integrator is what it claims to be; the test suite runs them over all."""

from .integrator import Springs, Trial, check_integrator, spring_system
from .potential import check_potential, example_system, examples

__all__ = ["Springs", "Trial", "check_integrator", "check_potential", "example_system", "examples", "spring_system"]
