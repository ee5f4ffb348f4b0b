"""Spark's daemon with the imports of its tasks: Spark forks a Python process for each task at a time from it.

    python -m pykraft.spark.session.daemon pyspark.worker

Spark starts it in a local session (``spark.python.daemon.module``). Its own daemon imports nothing, so each of its up
to six processes spends 0.5 to 0.8 s on the same modules, and it prints a traceback when Java hangs up on a process
whose rows it needs no more; this one says nothing.

Invariant: the daemon has one thread, since a fork copies the locks of others but not the threads that release them. So
each process still imports pyarrow itself, whose allocator has a thread of its own.

Source: pyspark's ``daemon.py``.
"""

import gc
import os
import sys
import traceback
from importlib import import_module

FOR_TASKS = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "numpy",
    "pykraft.client.remote.observer",
    "pykraft.log.judge",
    "pykraft.protocol.records",
)
"""What tasks that read a log import, without pyarrow."""


def import_for_tasks() -> None:
    """Import them. NumPy gets one thread, as Spark has it for tasks unless a user decides otherwise."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in FOR_TASKS:
        import_module(name)
    # Spark has each process collect garbage after each task: a search of all that was imported, which also copies the
    # pages that it shares with this one.
    gc.collect()
    gc.freeze()


def print_exc() -> None:
    """Print the traceback of the current exception, unless it only says that Java hung up."""
    # A task that fails is an error that Java tells; this is no task's.
    if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
        traceback.print_exc()


class _Traceback:
    print_exc = staticmethod(print_exc)
    format_exc = staticmethod(traceback.format_exc)


if __name__ == "__main__":
    from pyspark import daemon

    import_for_tasks()
    vars(daemon)["traceback"] = _Traceback
    daemon.manager()
