"""Where the parts of an agent run: one process, threads, MPI ranks."""
