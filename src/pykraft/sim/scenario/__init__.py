"""What a world may draw: scenario files, the settings of nodes, and the kinds of faults."""
