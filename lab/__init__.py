"""The laboratory of a clone: benchmarks, real faults, campaigns of the simulator, and the demo. No wheel has it."""
