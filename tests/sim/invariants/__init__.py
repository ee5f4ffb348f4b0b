"""Each invariant sees what was planted for it and accepts what is right."""
