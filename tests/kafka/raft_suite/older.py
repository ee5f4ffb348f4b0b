"""What the shim's sources say otherwise for releases before 4.3: names that Kafka's classes had, and settings of 4.3.

Invariant: each text that is replaced is in the sources, so that none is forgotten when they change.
"""

from typing import Final

_RENAMED: Final = (
    ("common.record.internal.", "common.record."),
    ("RaftLog log", "ReplicatedLog log"),
    ("quorumConfig.fetchMaxBytes()", "MAX_BATCH_SIZE_BYTES"),
    ("quorumConfig.fetchSnapshotMaxBytes()", "MAX_BATCH_SIZE_BYTES"),
    ("Isolation.UNCOMMITTED, READ_SIZE_BYTES", "Isolation.UNCOMMITTED"),
    ("handleLoadBootstrap(reader)", "handleLoadSnapshot(reader)"),
)
_NOT_YET: Final = (
    ("quorumConfig.autoJoin()", "false"),
    ("@Override\n    public Optional<Node> voterNode", "public Optional<Node> voterNode"),
)
TEXTS: Final = {"4.1": (*_RENAMED, *_NOT_YET), "4.2": _RENAMED}
"""By release: text in the sources, and what it is there."""


def translated(sources: dict[str, str], version: str) -> dict[str, str]:
    """The sources by name, as this release needs them. Errors: ValueError for a text that is in none of them."""
    texts = TEXTS.get(".".join(version.split(".")[:2]), ())
    for text, older in texts:
        if not any(text in source for source in sources.values()):
            raise ValueError(f"no source of the shim has {text!r} any more")
        sources = {name: source.replace(text, older) for name, source in sources.items()}
    return sources
