"""The parts of a simulated world: clock, disk, network, and the nodes that run on them."""
