"""A system made ready to compute: arrays at fixed addresses, tasks on them, and the native loop that runs the tasks."""
