"""Results from a finite number of measurements: sampling, estimates, and the mitigation of errors."""
