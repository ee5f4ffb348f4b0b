"""How the data source reads: plan splits of a log or of a live quorum, walk over batches, make rows."""
