"""A Flower app that carries the rounds of a federated run."""
