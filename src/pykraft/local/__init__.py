"""A quorum of nodes as processes on this machine, and what they acknowledged, kept outside of them."""
