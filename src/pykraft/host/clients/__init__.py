"""What a node answers clients that are not members of its quorum."""
