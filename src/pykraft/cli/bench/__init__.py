"""`pykraft bench`: measurements of whole quorums."""
