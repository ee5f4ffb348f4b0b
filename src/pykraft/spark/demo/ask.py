"""What the demo asks of Spark: the audit of log directories against a journal, in a session of its own.

Invariant: the session is gone when the answer is there. What Spark raises becomes one line: what our source said on a
worker, or the first line of what Spark says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pykraft.client.journal import Acknowledged
from pykraft.errors import LocalQuorumError
from pykraft.spark.audit import Audit, acknowledged_frame, audit
from pykraft.spark.demo.progress import Tell
from pykraft.spark.session import local_session

_OUR_ERROR = re.compile(r"^pykraft\.errors\.\w+: (.*)$", re.MULTILINE)


def ask_spark(partitions: Sequence[Path], said: Iterable[Acknowledged], *, until_offset: int, tell: Tell) -> Audit:
    """The audit of these replicas' partition directories, which all hold what is below ``until_offset``.

    Errors: UsageError without a Java runtime; LocalQuorumError when Spark does not start or cannot read the logs.
    """
    try:
        tell("starting Spark")
        spark = local_session("pykraft demo")
        try:
            paths = json.dumps([str(partition) for partition in partitions])
            records = spark.read.format("pykraft").option("paths", paths).load()
            tell("asking Spark for every acknowledged record")
            promised = acknowledged_frame(spark, said)
            return audit(records, promised, replicas=len(partitions), until_offset=until_offset)
        finally:
            spark.stop()
    except (PySparkException, Py4JError) as error:
        raise LocalQuorumError(f"Spark has no answer: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """The line of an error of Spark's that says what is wrong."""
    ours = _OUR_ERROR.findall(str(error))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ours[-1] if ours else (lines or [type(error).__name__])[0]
