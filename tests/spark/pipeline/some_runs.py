"""Runs of a pipeline, made by hand: their reports as gold computes them."""

from datetime import datetime, timedelta
from typing import Any

from pykraft.spark.pipeline.report import PipelineReport, PipelineRun
from pykraft.spark.pipeline.status import TableStatus

BEGIN = datetime(2026, 11, 23, 14, 3)  # noqa: DTZ001 - Spark returns times without a zone
TABLES = ("bronze_batches", "silver_records", "silver_control")


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def epoch(number: int, leader_id: int, begun_s: float, ended_s: float) -> dict[str, Any]:
    return {
        "epoch": number,
        "leader_id": leader_id,
        "first_offset": 100 * number,
        "last_offset": 100 * number + 99,
        "begun": at(begun_s),
        "ended": at(ended_s),
        "records": 99_000,
        "gap_ms": None if number == 1 else 1_203,
    }


def run(name: str = "tables", *, seconds: int = 60, pace: int = 1_000) -> PipelineRun:
    """A run with a pause in its middle and three leaders."""
    middle = seconds // 2
    spells = [epoch(1, 1, 0, middle - 1), epoch(2, 3, middle + 1, seconds - 5), epoch(3, 2, seconds - 4, seconds)]
    throughput = [
        {"begin": at(second), "records": pace + second, "size_bytes": 100 * pace, "last_offset": second}
        for second in range(seconds)
        if second != middle
    ]
    report = PipelineReport(
        replica="n2",
        replicas=["n1", "n2"],
        records=59_000,
        control_records=3,
        size_bytes=5_900_000,
        first_offset=0,
        last_offset=59_002,
        corrupt=0,
        epochs=spells,
        throughput=throughput,
    )
    sizes = {
        table: TableStatus(rows=5_000 * place, files=12 * place, size_bytes=3_400_000 * place)
        for place, table in enumerate(TABLES, start=1)
    }
    return PipelineRun(name=name, report=report, tables=sizes)
