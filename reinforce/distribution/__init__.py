"""Distribution of an agent over one process, threads or MPI ranks."""
