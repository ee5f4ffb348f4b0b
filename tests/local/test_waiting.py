"""A wait ends with the result, at its deadline, or when success is no longer possible."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

import pytest

from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children
from pykraft.local.waiting import wait_until


def test_it_returns_the_first_result() -> None:
    numbers = count()
    assert wait_until(lambda: (number := next(numbers)) > 2 and number, "a number above two") == 3
    assert wait_until(lambda: 0, "nought, which is a result") == 0


def test_it_names_what_did_not_happen() -> None:
    with pytest.raises(LocalQuorumError, match="for a miracle"):
        wait_until(lambda: None, "a miracle", timeout_s=0.05)


def test_it_ends_with_the_process_that_it_waits_for(children: Children, tmp_path: Path) -> None:
    child = children.start("a short life", [sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log")
    with pytest.raises(LocalQuorumError, match="a short life ended with 3"):
        wait_until(lambda: None, "a miracle", alive=[child])
