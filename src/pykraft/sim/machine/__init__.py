"""What a world is made of: clock, disk, network, and the nodes that run on them."""
