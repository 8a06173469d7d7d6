"""What all agents share: the training loop, evaluation, reports, checkpoints, running statistics."""
