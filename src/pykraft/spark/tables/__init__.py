"""Tables to which micro-batches are appended exactly once: Delta without a jar."""
