"""Rules of games and environments: compiled, checked and told apart."""
