"""What the process is given: signals, workers, optional packages, a folder for caches, compiled modules."""
