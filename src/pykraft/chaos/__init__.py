"""Real nodes under load while real faults are done to them; what they acknowledged is kept outside and checked."""
