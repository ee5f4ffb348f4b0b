"""Consumer groups: their state in the log, their members in the leader's memory, and what clients ask about them."""
