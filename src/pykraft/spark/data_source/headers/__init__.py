"""The headers of the batches in a chunk of a log: one by one, or as columns."""
