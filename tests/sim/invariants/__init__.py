"""Each invariant notices a planted violation and accepts correct behavior."""
