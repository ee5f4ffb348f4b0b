"""Runs a quorum of node processes on this machine, with a journal of their acknowledgements kept outside of them."""
