"""Enhanced sampling: methods that a simulation takes in `sampling`, and replicas of simulations that learn together."""
