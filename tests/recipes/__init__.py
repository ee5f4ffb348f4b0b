"""The recipes: the key-value store and what is built on it."""
