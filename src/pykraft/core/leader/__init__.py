"""What only a leader keeps and does: its log's growth, its followers' progress, changes under way."""
