"""No request of any API stops a node, costs it much memory, or keeps it from serving: a short run of the fuzzer.

Source: ours (ADR 033, ADR 065).
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.host.clients.fuzz import fuzz
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.no_cover  # it would take twice as long, and other tests reach the same

INPUTS = 10_000


def check(told: dict[str, int]) -> None:
    assert told["played"] == INPUTS
    assert told["answered"] > 4_000, "most requests are well-formed"


def test_a_node_serves_on_after_ten_thousand_drawn_requests() -> None:
    check(fuzz(INPUTS, seed=0, measures=False))


def test_none_of_them_takes_much_memory() -> None:
    words = (sys.executable, "-m", "tests.host.clients.fuzz", "--inputs", str(INPUTS), "--seed", "0")
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    check(json.loads(ended.stdout))
