"""What a world can draw from: scenario files, node settings, and the kinds of faults."""
