"""`pykraft sim`: the simulator's commands."""
