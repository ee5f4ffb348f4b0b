"""Measures pykraft, its peers and the limit of the machine in turn, and makes tables and plots of the results."""
