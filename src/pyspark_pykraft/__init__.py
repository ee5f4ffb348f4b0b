"""Spark finds ``format("pykraft")`` by this module's name, so that a program need not register it.

Spark imports every module ``pyspark_*`` that it can find when a session first uses a Python source, and an error in one
of them hides all Python sources. So without its requirements this module has no source, and raises nothing.

Source: PySpark's ``lookup_data_sources`` (SPARK-45917).
"""

from contextlib import suppress

with suppress(Exception):
    from pykraft.spark.source import PykraftDataSource as DefaultSource

__all__ = ["DefaultSource"]
