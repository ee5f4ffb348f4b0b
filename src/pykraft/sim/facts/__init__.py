"""The true state of a world: what platters hold, who votes, what clients were told. Oracles and faults read it."""
