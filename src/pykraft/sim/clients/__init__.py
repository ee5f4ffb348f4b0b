"""What uses the quorum of a world: applications, the workload's clients, operators and strangers."""
