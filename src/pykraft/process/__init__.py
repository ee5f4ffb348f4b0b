"""What the process is given: signals, optional packages, a folder for caches, compiled modules."""
