"""Source code of a function, written line by line."""

from __future__ import annotations

import pytest

from pykraft.protocol.source import FunctionSource


def test_lines_blocks_names_and_constants_become_a_function() -> None:
    source = FunctionSource("double(values)")
    total = source.fresh()
    assert source.fresh() != total
    source.line(f"{total} = {source.constant(100)}")
    with source.block("for value in values:"):
        source.line(f"{total} += value * factor")
    source.line(f"return {total}")
    double = source.build("double", "test", {"factor": 2})
    assert double([1, 2, 3]) == 112


def test_a_traceback_names_the_origin() -> None:
    source = FunctionSource("fail()")
    source.line("raise ValueError")
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is not the point)
        source.build("fail", "where it comes from", {})()
    assert caught.traceback[-1].frame.code.raw.co_filename == "<where it comes from>"
