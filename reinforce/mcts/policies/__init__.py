"""Tree policies: which action a simulation tries. One file each."""
