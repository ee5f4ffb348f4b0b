"""The files beside the segments: elections, epochs, identity, the recovery point, and what was lost."""
