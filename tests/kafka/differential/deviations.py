"""The allowed differences between Kafka and pykraft, with reasons: `DEVIATIONS`. Any other one is a finding.

Invariant: a row names the decision that made the difference. `plain` takes out what no decision made: times, random
ids, and words for people.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykraft.errors import ProtocolError
from pykraft.protocol.records import scan

DEVIATIONS: Final = (
    (
        "a request that nobody waits for any more",
        "it is refused before a look (World._answer_old)",
        "ADR 006: ours closes its connection; Kafka asks that peer nothing else before an answer or a timeout",
    ),
    (
        "whom a node fetches from that knows no leader, or that the leader refused",
        "Fetches are those from ANY",
        "Kafka takes a voter at random; ADR 021",
    ),
    (
        "records in the answer that first names the leader",
        "they are not sent",
        "Kafka appends them; ADR 031: ours fetches them from that leader",
    ),
    (
        "records from a voter that does not lead",
        "they are not sent",
        "Kafka appends them; ADR 028 and spec 10 §3: the answer costs the connection",
    ),
    (
        "a sound batch before a corrupt one",
        "an answer with a corrupt batch has one",
        "Kafka appends neither; ADR 031: ours appends the sound one",
    ),
    (
        "where the log ends after a cut inside a batch",
        "Kafka's Fetch counts as far as its file goes, and both are killed next",
        "ADR 023: Kafka's memory says more than its file holds",
    ),
    (
        "a cut inside a batch that begins below the high watermark",
        "it is not played",
        "ADR 023 and 028: ours would lose what is committed, so it gives the leader up",
    ),
    (
        "Votes of a node that starts as a candidate with a short election timeout",
        "they are refused before a look (World._answer_old)",
        "ADR 006: ours goes on to pre-votes at once; Kafka's wait behind the Votes until those are answered",
    ),
    ("a leader that agreed with the log, and then diverges", "it is not played", "ADR 028: ours gives it up"),
    (
        "a pre-vote that another asks for after EndQuorumEpoch",
        "it is not played",
        "ADR 004: ours grants it; Kafka denies it until its own fetch timeout",
    ),
    ("a pre-vote that is denied after EndQuorumEpoch", "it is granted", "ADR 014: ours asks again"),
    (
        "a leader whose machine refuses connections",
        "all voters listen as long as the node runs",
        "ADR 063: ours asks for pre-votes before its fetch timeout; Kafka waits for that",
    ),
    (
        "requests of a higher epoch, and EndQuorumEpoch, while the node leads or hears its leader",
        "they are not played",
        "ADR 129: ours yields to answers alone, and to a goodbye only when its leader denies that it leads",
    ),
    ("a vote for the node itself that another asks for", "it is not played", "ADR 002: ours closes the connection"),
    ("DescribeQuorum", "it is not played", "TestRaftServer does not serve it"),
    ("FetchSnapshot to the node", "it is not played", "Kafka cannot encode its own errors, and has no snapshot here"),
    ("a contradiction that ends Kafka's node", "the sequence ends", "ADR 002: it costs a connection"),
)
"""What differs; how it is kept out of the comparison; why it may."""
WORDS: Final = frozenset(
    {
        "fetches from the leader",
        "throttle_time_ms",
        "error_message",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
        "aborted_transactions",
    }
)


def plain(value: Any) -> Any:
    """Without times and words; records as their batches."""
    match value:
        case Mapping():
            return {
                str(key): _batches(cell) if key == "records" else plain(cell)
                for key, cell in value.items()
                if key not in WORDS
            }
        case list() | tuple():
            return [plain(cell) for cell in value]
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case _:
            return value


def alike(kafka: Any, ours: Any, place: str = "") -> Sequence[str]:
    """Where two plain values differ."""
    if isinstance(kafka, dict) and isinstance(ours, dict):
        keys = sorted(kafka.keys() | ours.keys())
        return [line for key in keys for line in alike(kafka.get(key), ours.get(key), f"{place}.{key}")]
    if isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        pairs = enumerate(zip(kafka, ours, strict=True))
        return [line for at, (one, other) in pairs for line in alike(one, other, f"{place}[{at}]")]
    return [] if kafka == ours else [f"{place}: Kafka {kafka!r}, pykraft {ours!r}"]


def _batches(records: Any) -> Any:
    try:
        headers = [header for _, header in scan(bytes(records or b""), verify_crc=False)]
    except ProtocolError:
        return "no batches"
    return [[each.base_offset, each.end_offset, each.epoch, each.is_control or each.crc] for each in headers]
