"""The repository's own rules, which `tests/test_tidy.py` applies to the repository and to planted examples."""
