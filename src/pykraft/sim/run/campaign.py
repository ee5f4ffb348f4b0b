"""The rows of a campaign: what a seed gave, and whose result it is.

Every row carries the `Identity` of its run, because a seed gives the same world everywhere, but only with the same code
and scenario.

Source: ours; FoundationDB's Joshua (many machines, one ensemble).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pykraft import __version__
from pykraft.sim.run.outcome import Outcome
from pykraft.sim.run.simulation import Failure
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
        """The identity of this code with this scenario."""
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
