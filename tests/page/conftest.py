"""Plots need matplotlib, which comes with the requirements of Spark; the stage spark has it."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("matplotlib") else ["test_plot_theme.py"]
