"""The report of a run of the demo: one page that needs nothing else, and its numbers."""

from pykraft.spark.demo.report.write import write_report

__all__ = ["write_report"]
