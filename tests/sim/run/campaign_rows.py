"""Rows as `pykraft sim run --out` writes them, made by hand, and files of them."""

import json
from pathlib import Path
from typing import Any

from pykraft.sim.run.campaign import Identity

IDENTITY = Identity(scenario="s" * 16, version="1.0", source="c" * 16)
OTHER = Identity(scenario="s" * 16, version="2.0", source="d" * 16)


def passed(seed: int, identity: Identity = IDENTITY, **changed: Any) -> dict[str, Any]:
    return {
        "seed": seed,
        "failed": False,
        **_of(identity),
        "committed": 10,
        "acknowledged": 9,
        "faults": {"kill": 2, "heal": 1},
        "states": {"kill": {"leader": 1, "down": 1}, "heal": {}},
        "virtual_ms": 1_500,
        **changed,
    }


def failed(
    seed: int, identity: Identity = IDENTITY, *, reason: str = "ViolationError: OneVote: it broke"
) -> dict[str, Any]:
    return {
        "seed": seed,
        "failed": True,
        **_of(identity),
        "reason": reason,
        "at_us": 2_000_000,
        "faults": {"kill": 1},
        "states": {"kill": {"follower": 1}},
    }


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def _of(identity: Identity) -> dict[str, str]:
    return {"scenario": identity.scenario, "version": identity.version, "source": identity.source}
