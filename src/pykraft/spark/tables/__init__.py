"""Tables that micro-batches are appended to exactly once: Delta without a jar, or plain Parquet."""
