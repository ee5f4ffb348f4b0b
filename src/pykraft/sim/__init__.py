"""A world from one seed: the production host on a virtual disk, network and clock, and what must hold in it."""
