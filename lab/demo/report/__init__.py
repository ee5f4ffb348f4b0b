"""The report of a demo run: one self-contained page, and its numbers."""

from lab.demo.report.write import write_report

__all__ = ["write_report"]
