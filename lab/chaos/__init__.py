"""Injects real faults into real nodes under load; their acknowledgements are kept outside and checked."""
