"""No request of any API stops a node, costs it much memory, or keeps it from serving: a short run of the fuzzer.

Source: ours (ADR 033, ADR 065).
"""

from __future__ import annotations

from tests.host.clients.fuzz import fuzz


def test_a_node_serves_on_after_ten_thousand_drawn_requests() -> None:
    told = fuzz(10_000, seed=0)
    assert told["played"] == 10_000
    assert told["answered"] > 4_000, "most requests are well-formed"
