"""Whether a game or an environment keeps what its users rely on."""
