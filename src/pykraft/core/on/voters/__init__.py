"""The rules that change the voter set or the level of kraft.version."""
