"""Worlds and what is done with them: run, shrink, collect in a campaign, add up."""
