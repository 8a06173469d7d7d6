"""Replay buffers: the last steps of vectorised environments, drawn from uniformly, by priority, or in segments."""
