"""Tests of the compiled modules: the source that mypyc gets, and that compiled nodes do what plain ones do."""
