"""What the records of ``__cluster_metadata`` say about the cluster, as tables: now, at a moment, and between two."""
