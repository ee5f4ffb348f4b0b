"""How the words of a command line are read: groups, values, paths, and what is said about wrong ones."""
