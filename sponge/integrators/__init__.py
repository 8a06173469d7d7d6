"""Integrators: one class a file; `integrator` says what they are, `testing` checks them."""
