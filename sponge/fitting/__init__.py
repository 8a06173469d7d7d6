"""Force-field parameters fitted to reference data."""
