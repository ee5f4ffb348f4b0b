"""A program's state machine in simulated worlds."""
