"""What uses a quorum: an embedded node, admin calls, observers, and the check of a log against a journal."""
