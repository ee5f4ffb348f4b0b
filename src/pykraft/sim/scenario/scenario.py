"""What a world is drawn from: sizes, times, work and the kinds of harm; the seed does the drawing.

Each table of a scenario is one small class, and every field has the value of the default scenario, so that a
scenario says only where it differs. A field that is a tuple is a set of choices: a world draws one of them, and a
value that stands there twice is drawn twice as often. Times that the host is configured with are in milliseconds,
as in its configuration; all others are microseconds of virtual time. Nothing here draws anything.

Source: FoundationDB's test specifications (``tests/fast/*.toml``); TigerBeetle's VOPR options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from pykraft.log.fs import SMALL_FILE_SIZE_BYTES_MAX

DEFAULT_FAULTS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "kill": 1.0,
        "kill while writing": 1.0,
        "power loss": 1.0,
        "power loss while writing": 1.0,
        "all down": 1.0,
        "all down after a commit": 1.0,
        "isolated": 1.0,
        "one-way cut": 1.0,
        "split": 1.0,
        "heal": 2.0,
        "resign": 1.0,
        "shutdown": 1.0,
    }
)
"""What a scenario that names no kind of harm has; the rest comes with the other shipped scenarios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """How many nodes there are."""

    voters: tuple[int, ...] = (1, 3, 3, 3, 5, 5, 2, 4)
    observers: tuple[int, ...] = (0, 0, 1, 2)
    absent: int = 0
    """Of the voters: so many have no machine, from the beginning to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Where the voter set stands when a world begins, and who else may come."""

    dynamic_probability: float = 0.0
    """Of worlds that begin at kraft.version 1, formatted with their voters; all others are configured with them."""
    formatted_probability: float = 0.5
    """Of all other worlds: that an operator formatted the disks; else the voters find out that all are empty."""
    auto_join_probability: float = 0.0
    """Of each node: that it asks by itself to be a voter when it is none."""
    newcomers_max: int = 0
    """Nodes that may come to a world that runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """From the start over the time of harm to the proof that all is well again."""

    start_us_max: int = 5_000
    """Within this time every node starts."""
    faults_us: int = 6_000_000
    heal_us: int = 15_000_000
    """Bound of the time from the end of the faults until every node has been given all that is asked for."""
    progress_records: int = 30
    """Records that must commit, and reach every node, after the faults."""
    first_kill_probability: float = 0.0
    """Of each node: that it is killed in its very first start, and loses power a little later."""
    variant: int = 0
    """Other dice for network, machines and work, under the same plan of harm: what a shrunk run may need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """Configuration of the nodes; all nodes of a world share it."""

    election_timeout_ms: int = 200
    fetch_timeout_ms: int = 500
    election_backoff_max_ms: int = 100
    request_timeout_ms: int = 500
    append_linger_ms: tuple[int, ...] = (0, 0, 5, 25)
    fetch_wait_ms_max: tuple[int, ...] = (50, 200)
    fetch_size_bytes_max: tuple[int, ...] = (2_000, 64_000)
    batch_size_bytes_max: int = 8_388_608
    request_size_bytes_max: int = 104_857_600
    """Longer requests cost their connection; the answers to a node's own requests may be longer."""
    leader_send_flushed_only_probability: float = 0.1
    segment_size_bytes: int = 16_384
    small_segment_probability: float = 0.0
    """Of worlds whose segments hold only a few batches."""
    index_size_bytes_max: int = 4_096
    recent_size_bytes_max: tuple[int, ...] = (33_554_432,)
    """Durable batches that a node keeps in memory; what is not there is read from files, by leaders too."""
    scrub_interval_ms: int = 2_000
    """A log is read again some times in a world, not so often that starts and reads find no damage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """One hop of the network, on a good day."""

    latency_us_min: int = 100
    latency_us_max: tuple[int, ...] = (500, 2_000, 10_000)
    slow_probability: float = 0.01
    """How often a frame takes ten times as long."""
    byte_us: tuple[int, ...] = (0,)
    """Microseconds that each byte takes on every link: a million over the bandwidth."""
    narrow_probability: float = 0.0
    """Of worlds whose links are narrow: a byte takes one of ``narrow_byte_us`` there."""
    narrow_byte_us: tuple[int, ...] = (4, 8, 12)
    unanswered_probability: float = 0.0
    """Of each dial that reaches nobody: that nothing ever comes of it, not even an error."""
    half_open_probability: float = 0.0
    """Of each connection to a machine that loses its power: that the other end learns of it seconds later only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """One turn of a lane of the disk, on a good day."""

    turn_us_min: int = 100
    turn_us_max: int = 1_500
    slow_probability: float = 0.02
    slow_turn_us_min: int = 5_000
    slow_turn_us_max: int = 60_000
    bulk_factor: tuple[int, ...] = (1,)
    """How many times as long a turn of the bulk lane takes."""
    page_torn_probability: float = 0.3
    """Of each page that was not synced when the power goes: that its first sectors only are on the platter."""
    page_lost_probability: float = 0.35
    """That nothing of it is there."""
    small_file_size_bytes_max: int = SMALL_FILE_SIZE_BYTES_MAX
    """What a disk reads as a whole; with a lower bound, a world finds reads of files that may grow beyond it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the application proposes at every node that leads."""

    period_us: int = 15_000
    """Between two proposals, half of it at least and twice as much at most."""
    values_max: int = 5
    proposals_max: int = 1
    """In one call of a client, one right after the other."""
    value_size_bytes_max: int = 300
    prepared_probability: float = 0.0
    """Of worlds whose clients only prepare many of their appends, at leaders whose buffers hold few bytes."""
    visitor_probability: float = 0.0
    """Of worlds with a client that asks every node for what it knows of the quorum, and for what nobody may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """What the applications take of their state, and how long the nodes keep it; by default nothing is taken."""

    records_between: tuple[int, ...] = (0,)
    """About so many records from one snapshot of a node to the next; 0 takes none."""
    pieces_max: int = 3
    """In how many calls the records of one are written."""
    asked_probability: float = 0.0
    """Of each process: that its application waits to be asked, after about 100 bytes for each of these records."""
    bystander_probability: float = 0.0
    """Of worlds with snapshots: that each process has a second listener, which is slow and loads none."""
    given_up_probability: float = 0.05
    careless_probability: float = 0.0
    """Of each: that one of its records cannot be written, and its application freezes it all the same."""
    slice_size_bytes_max: tuple[int, ...] = (500, 4_000, 64_000)
    """Bytes of one FetchSnapshot."""
    retention_size_bytes_max: tuple[int, ...] = (0, 20_000, 60_000)
    clean_interval_ms: tuple[int, ...] = (50, 300, 1_000)
    delete_delay_ms: tuple[int, ...] = (0, 200, 60_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often harm is done, and how long it lasts; durations are drawn anew each time."""

    kind_probability: float = 0.7
    """Of each kind: that a world has it at all (swarm testing)."""
    period_us_min: int = 20_000
    period_us_max: tuple[int, ...] = (150_000, 400_000, 800_000)
    stranger_probability: float = 1.0
    """Of worlds whose scenario has kinds of harm by strangers: that there are strangers at all."""
    stranger_us_max: tuple[int, ...] = (400_000, 2_000_000)
    """From one thing that a stranger does to the next at most."""
    restart_us_max: tuple[int, ...] = (5_000, 100_000, 1_000_000)
    operations_max: int = 12
    """A process that ends within a file operation, or a disk that fails, does so within that many of them."""
    shutdown_ms: int = 300
    only: tuple[int, ...] | None = None
    """Numbers of the decisions to do harm that are carried out, None for all: what a shrunk run keeps."""
    skip: float = 0.0
    """The part of the time before each decision that is not carried out that is left out with it."""
    storm_restarts_max: int = 8
    pause_us_max: tuple[int, ...] = (20_000, 300_000, 2_000_000)
    stall_us_max: tuple[int, ...] = (20_000, 300_000, 2_000_000)
    repair_us_max: tuple[int, ...] = (50_000, 1_000_000)
    """Until a disk that is full has room, and one that does not work is replaced."""
    wall_jump_ms_max: tuple[int, ...] = (10, 5_000, 86_400_000)
    header_flip_probability: float = 0.0
    """Of each bit that flips in a log: that it is one of an offset or an epoch, which no checksum covers."""
    head_flip_probability: float = 0.0
    """Of each bit that flips: that it is one in the head of a snapshot that is not the newest."""
    emptied_kill_probability: float = 0.0
    """Of each disk that is emptied: that the start after it is killed, and the power goes a little later."""
    skew_max: float = 0.2
    """How much faster or slower than time a monotonic clock goes at most."""
    delay_us_max: tuple[int, ...] = (20_000, 200_000)
    """What a slow link adds to every frame."""
    byte_us: tuple[int, ...] = (0, 20, 100)
    """Microseconds that a slow link takes for one byte."""
    network_us_max: tuple[int, ...] = (100_000, 1_000_000, 2_500_000)
    """How long a link flaps, is slow, or keeps frames back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All tables; ``faults`` gives each kind of harm its weight among the others, and 0 switches it off."""

    name: str = "default"
    cluster: Cluster = Cluster()
    membership: Membership = Membership()
    course: Course = Course()
    quorum: Quorum = Quorum()
    links: Links = Links()
    storage: Storage = Storage()
    work: Work = Work()
    snapshots: Snapshots = Snapshots()
    pace: Pace = Pace()
    faults: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_FAULTS))


DEFAULT = Scenario()
