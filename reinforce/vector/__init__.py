"""Many environments at once: what an environment is, and how they step compiled."""
