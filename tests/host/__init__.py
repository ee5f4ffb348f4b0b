"""One node without a loop, with a world made of lists; and three of them on a network in memory."""
