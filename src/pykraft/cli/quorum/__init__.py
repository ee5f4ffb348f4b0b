"""`pykraft quorum`: describes and changes a live quorum."""
