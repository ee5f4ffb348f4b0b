"""The page needs matplotlib, which comes with the requirements of Spark; the stage spark has it."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("matplotlib") else ["test_page.py"]
