"""Replay buffers: the last steps of vectorized environments, drawn from uniformly, by priority, or in segments."""
