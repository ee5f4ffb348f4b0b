"""The rows of a campaign: what a seed gave and whose result it is, and the sums over many.

Every row carries the `Identity` of its run, because a seed gives the same world everywhere, but only with the same code
and scenario; rows of another identity are another summary. Invariant: memory is bounded; every failing seed is counted,
also by the rule that it broke, and the rows of the first `FAILURES_KEPT_MAX` are kept.

Source: ours; FoundationDB's Joshua (many machines, one ensemble); TigerBeetle's VOPR (coverage marks of a run).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from dataclasses import fields as dataclass_fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from pykraft import __version__
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from pykraft.sim.scenario.scenario import Scenario

Row = Mapping[str, Any]
PACKAGE = Path(__file__).resolve().parents[2]
PARTS = ("core", "host", "log", "protocol", "rpc", "sim", "snapshot")
"""The code that decides a world, together with the modules next to these folders."""
DIGEST_SIZE_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What all rows of one campaign have in common."""

    scenario: str
    """Digest of all fields of the scenario."""
    version: str
    source: str
    """Digest of the code that decides a world."""

    @classmethod
    def of(cls, scenario: Scenario) -> Identity:
        fields = json.dumps(asdict(scenario), sort_keys=True, default=dict).encode()
        return cls(scenario=_digest([fields]), version=__version__, source=source_digest())


def source_digest(package: Path = PACKAGE) -> str:
    """Digest of the code; the same wherever it is installed."""
    paths = [path for part in PARTS for path in package.joinpath(part).rglob("*.py")]
    paths += package.glob("*.py")
    named = sorted((path.relative_to(package).as_posix(), path) for path in paths)
    return _digest(piece for name, path in named for piece in (name.encode(), path.read_bytes()))


def _digest(pieces: Iterable[bytes]) -> str:
    digest = blake2b(digest_size=DIGEST_SIZE_BYTES)
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()


def row_of(result: Outcome | Failure, identity: Identity) -> Row:
    """The row of one seed; a failure's row omits trace and story, because replaying the seed gives them again."""
    fields = {field.name: getattr(result, field.name) for field in dataclass_fields(result)}
    if isinstance(result, Failure):
        del fields["trace"], fields["story"], fields["harm"], fields["finding"]
    return {"seed": result.seed, "failed": isinstance(result, Failure), **asdict(identity), **fields}


COUNTED = ("committed", "acknowledged")
FAILURES_KEPT_MAX: Final = 1_000
RULES_MAX: Final = 1_000
OTHERS: Final = "others"
VIOLATION: Final = "ViolationError"


@dataclass(slots=True, kw_only=True)
class Totals:
    """The sum so far."""

    seeds: int = 0
    sums: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    worlds_with: Counter[str] = field(default_factory=Counter)
    """In how many worlds each kind of fault happened at least once."""
    states: dict[str, Counter[str]] = field(default_factory=dict)
    """By kind of fault: how often it hit a node in each role."""

    def add(self, row: Row) -> None:
        """Add one seed; a failed one counts with what it did before it failed."""
        self.seeds += 1
        self.sums["virtual_ms"] += row["at_us"] // 1_000 if row["failed"] else row["virtual_ms"]
        for name in COUNTED:
            self.sums[name] += row.get(name, 0)
        # Plain loops: Counter.update takes twice as long for a few keys, and a file may have a million rows.
        for kind, count in row["faults"].items():
            self.faults[kind] += count
            self.worlds_with[kind] += 1
        for kind, roles in row.get("states", {}).items():
            known = self.states.get(kind)
            if known is None:
                known = self.states[kind] = Counter()
            for role, count in roles.items():
                known[role] += count


@dataclass(slots=True, kw_only=True)
class CampaignSummary:
    """The sum so far."""

    identity: Identity
    totals: Totals = field(default_factory=Totals)
    failed: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    """Failing seeds by the rule that was broken."""
    kept: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Add one seed; a failed one counts with what it did before it failed."""
        self.totals.add(row)
        if row["failed"]:
            self._fail(row)

    def _fail(self, row: Row) -> None:
        self.failed += 1
        rule, _ = rule_and_story(row)
        self.rules[rule if rule in self.rules or len(self.rules) < RULES_MAX else OTHERS] += 1
        if len(self.kept) < FAILURES_KEPT_MAX:
            self.kept.append(row)

    @property
    def failures(self) -> list[Row]:
        """The rows that are kept of failing seeds, by seed."""
        return sorted(self.kept, key=seed_of)

    @property
    def passed(self) -> int:
        return self.totals.seeds - self.failed


def rule_and_story(row: Row) -> tuple[str, str]:
    """The oracle that a failing seed violated, or the error that it raised; and what happened, in one line."""
    kind, _, story = " ".join(row["reason"].split()).partition(": ")
    if kind != VIOLATION:
        return kind, story
    rule, _, story = story.partition(": ")
    return rule, story


def seed_of(row: Row) -> int:
    return int(row["seed"])
