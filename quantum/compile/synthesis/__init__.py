"""Gates made of simpler gates."""
