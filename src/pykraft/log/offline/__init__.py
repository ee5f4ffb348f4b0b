"""Tools for the files of a stopped or running node: verify and dump. They change nothing."""
