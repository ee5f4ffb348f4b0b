"""Campaigns of the simulator: files of result rows, of any size, added up by version of the code, and their page."""
