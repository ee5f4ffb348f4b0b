"""Clients of a live quorum that are not members of it: the observer, the admin client, and their search."""
