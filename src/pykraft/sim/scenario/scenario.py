"""What a world is drawn from: sizes, times, work and faults. The seed does the drawing.

Each table of a scenario is a small class whose fields default to the default scenario, so a scenario lists only what
differs. A field that is a tuple is a set of choices: a world draws one of them, and a value that appears twice is drawn
twice as often. Times of the host's configuration are in milliseconds, as there; all others are microseconds of virtual
time. Nothing here draws anything.

A fault is counted when it happens, not when it is planned: a disk error when the disk raises it, an old Fetch when it
arrives, a change of the voters when it is committed.

Source: FoundationDB's test specifications (``tests/fast/*.toml``); TigerBeetle's VOPR options.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from pykraft.log.fs import SMALL_FILE_SIZE_BYTES_MAX

PROCESS: Final = (
    "kill",
    "kill while writing",
    "power loss",
    "power loss while writing",
    "kill then power loss",
    "restart storm",
    "pause",
    "all down",
    "all killed",
    "all down after a commit",
    "resign",
    "shutdown",
    "transfer",
    "transfer to the dead",
)
CLOCK: Final = ("clock skew", "clock jump")
VERSION: Final = ("old version",)
SNAPSHOT: Final = ("snapshot interrupted", "download interrupted", "install interrupted", "cleaning interrupted")
LOUD_DISK: Final = (
    "read error",
    "write error",
    "fsync error",
    "disk full",
    "disk stalled",
    "part fsync error",
    "no room for snapshots",
)
SILENT_DISK: Final = ("bit flip", "lost write", "misdirected write", "lost sector", "wiped disk", "emptied disk")
RESTORED: Final = ("older quorum-state", "lost recovery-point")
NETWORK: Final = (
    "isolated",
    "one-way cut",
    "split",
    "star",
    "flapping",
    "flapping connections",
    "refused connections",
    "heal",
    "slow link",
    "trickle",
    "delay",
    "lost frames",
    "duplicated request",
    "reordered frames",
    "old fetch",
)
MEMBERSHIP: Final = (
    "new voter",
    "promotion",
    "removal",
    "leader removal",
    "cut after voters",
    "replaced disk",
    "moved voter",
    "upgrade",
)
STRANGER: Final = (
    "far epoch",
    "rising epochs",
    "false leader",
    "false voter",
    "forged fetch",
    "forged endpoint",
    "abandoned fetch",
)
"""Drawn separately from the others, see `pykraft.sim.faults.faults`."""
FORGED: Final = ("forged frames",)
TWINS: Final = ("twin",)
BACKUPS: Final = ("older directory",)
MACHINES: Final = ("replaced machine",)
FLIPPED: Final = ("flipped bit",)
UNREADABLE: Final = ("unreadable snapshots",)
IMPOSTORS: Final = ("impostor", "withdrawn rule")
OF_THEIR_OWN: Final = (FORGED, TWINS, BACKUPS, MACHINES, FLIPPED, UNREADABLE, IMPOSTORS)
"""Families with a plan of their own each. The weight of such a kind, up to 1, is the probability that a world has it,
so a world without it stays what it was.
"""
KINDS: Final = (
    *PROCESS,
    *CLOCK,
    *VERSION,
    *SNAPSHOT,
    *LOUD_DISK,
    *SILENT_DISK,
    *RESTORED,
    *NETWORK,
    *MEMBERSHIP,
    *STRANGER,
    *(kind for family in OF_THEIR_OWN for kind in family),
)
CONSEQUENCES: Final = (
    "torn write",
    "snapshot taken",
    "snapshot loaded",
    "snapshot installed",
    "log cleaned",
    "damaged snapshot",
    "auto join",
)
"""Counted, but not drawn."""


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
"""The faults of a scenario that names none; the other shipped scenarios add more kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """How many nodes a world has."""

    voters: tuple[int, ...] = (1, 3, 3, 3, 5, 5, 2, 4)
    observers: tuple[int, ...] = (0, 0, 1, 2)
    absent: int = 0
    """Number of voters that have no machine in the whole run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSettings:
    """How the voter set of a world begins, and which nodes may join."""

    dynamic_probability: float = 0.0
    """Probability that a world begins at kraft.version 1, with formatted voters; other worlds configure them."""
    formatted_probability: float = 0.5
    """Probability that an operator formatted a static world's disks; else the voters find out that all are empty."""
    auto_join_probability: float = 0.0
    """Probability that a node asks by itself to become a voter."""
    newcomers_max: int = 0
    """Number of nodes that may join a running world."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The phases of a run: start, faults, and the proof that the cluster has healed."""

    start_us_max: int = 5_000
    """Every node starts within this time."""
    faults_us: int = 6_000_000
    heal_us: int = 15_000_000
    """Longest time from the end of the faults until every node has all that is required."""
    progress_records: int = 30
    """Records that must be committed, and reach every node, after the faults."""
    first_kill_probability: float = 0.0
    """Probability that a node is killed in its very first start and loses power a little later."""
    variant: int = 0
    """Selects other random draws for network, machines and work under the same plan of faults; used by shrinking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """Configuration that all nodes of a world share."""

    election_timeout_ms: int = 200
    fetch_timeout_ms: int = 500
    election_backoff_max_ms: int = 100
    request_timeout_ms: int = 500
    append_linger_ms: tuple[int, ...] = (0, 0, 5, 25)
    fetch_wait_ms_max: tuple[int, ...] = (50, 200)
    fetch_size_bytes_max: tuple[int, ...] = (2_000, 64_000)
    batch_size_bytes_max: int = 8_388_608
    request_size_bytes_max: int = 104_857_600
    """A longer request closes its connection; answers to a node's own requests may be longer."""
    leader_send_flushed_only_probability: float = 0.1
    never_leads_probability: float = 0.0
    """Probability that one voter of several never leads, and all others follow Kafka's rules."""
    without_operators_probability: float = 0.0
    """Probability that no listener of a world serves operators, if no fault of its scenario needs one."""
    segment_size_bytes: int = 16_384
    small_segment_probability: float = 0.0
    """Probability that the segments of a world hold only a few batches."""
    index_size_bytes_max: int = 4_096
    recent_size_bytes_max: tuple[int, ...] = (33_554_432,)
    """Durable batches that a node keeps in memory; a leader, too, reads older ones from files."""
    scrub_interval_ms: int = 2_000
    """A world scrubs its logs a few times, but rarely enough that starts and reads find damage, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """One hop of the network without faults."""

    latency_us_min: int = 100
    latency_us_max: tuple[int, ...] = (500, 2_000, 10_000)
    slow_probability: float = 0.01
    """Probability that a frame takes ten times as long."""
    byte_us: tuple[int, ...] = (0,)
    """Microseconds per byte on every link: a million over the bandwidth."""
    narrow_probability: float = 0.0
    """Probability that a world has narrow links, where a byte takes one of ``narrow_byte_us``."""
    narrow_byte_us: tuple[int, ...] = (4, 8, 12)
    unanswered_probability: float = 0.0
    """Probability that a dial that reaches nobody gets no reply at all, not even an error."""
    half_open_probability: float = 0.0
    """Probability that the other end of a connection notices a power loss only seconds later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """One turn of a disk lane without faults."""

    turn_us_min: int = 100
    turn_us_max: int = 1_500
    slow_probability: float = 0.02
    slow_turn_us_min: int = 5_000
    slow_turn_us_max: int = 60_000
    bulk_factor: tuple[int, ...] = (1,)
    """How many times as long a turn of the bulk lane takes."""
    page_torn_probability: float = 0.3
    """Probability that a power loss leaves a mix of two contents of an unsynced page on the platter."""
    page_lost_probability: float = 0.35
    """Probability that a power loss leaves nothing of an unsynced page."""
    small_file_size_bytes_max: int = SMALL_FILE_SIZE_BYTES_MAX
    """The largest file that a disk reads as a whole; a lower bound reveals such reads of files that may outgrow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What clients propose at every node that leads."""

    period_us: int = 15_000
    """Typical time between two turns of the clients: at least half of it, at most twice as much."""
    values_max: int = 5
    proposals_max: int = 1
    """Most proposals in one call of a client, one right after the other."""
    value_size_bytes_max: int = 300
    prepared_probability: float = 0.0
    """Probability that the clients of a world only prepare many of their appends, at leaders with small buffers."""
    visitor_probability: float = 0.0
    """Probability of a client that asks nodes what they know of the quorum, and for changes that must be refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """Idempotent producers, which write through Kafka's own requests; the default has none."""

    count: tuple[int, ...] = (0,)
    """How many producers a world has."""
    remembered_max: tuple[int, ...] = (10_000,)
    """How many producer ids a node remembers."""
    accumulated_batches_max: tuple[int, ...] = (10,)
    """How many batches a leader accumulates before it refuses more."""
    period_us: int = 20_000
    """Typical time between two batches of a producer: at least half of it, at most twice as much."""
    values_max: int = 3
    value_size_bytes_max: tuple[int, ...] = (60, 3_000)
    """With the larger values some batches are checked on the bulk lane."""
    impatience: float = 0.03
    """Probability per turn that a producer gives up its connection although requests are unanswered."""
    restart_probability: float = 0.004
    """Probability per turn that a producer forgets its id and begins anew."""
    bump_probability: float = 0.01
    """Probability per turn that a producer gives up what is unanswered and raises its epoch."""
    sleep_probability: float = 0.01
    """Probability per turn that a producer with nothing unanswered pauses."""
    sleep_us_max: int = 1_500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Consumer groups and their members, which read and commit through Kafka's own requests; the default has none."""

    count: tuple[int, ...] = (0,)
    """How many groups a world has."""
    members: tuple[int, ...] = (1, 2, 3)
    """How many members each group of a world has, unless they are gone."""
    classic_probability: float = 0.5
    """Probability that the members of a group use the classic protocol; others use that of KIP-848."""
    static_probability: float = 0.3
    """Probability that a member is a static one."""
    initial_delay_ms: tuple[int, ...] = (0, 100)
    session_ms: int = 400
    rebalance_ms: int = 200
    """How long a rebalance waits for a member; shorter than a session, so that a static one may miss it."""
    period_us: int = 20_000
    """Typical time between two requests of a member: at least half of it, at most twice as much."""
    impatience: float = 0.04
    """Probability per turn that a member gives up its connection although a request is unanswered."""
    crash_probability: float = 0.01
    """Probability per turn that a member ends without a word, and another one takes its place."""
    leave_probability: float = 0.01
    """Probability per turn that a member leaves, and another one takes its place."""
    unsubscribe_probability: float = 0.05
    """Probability per heartbeat of KIP-848 that a member gives the topic up, or subscribes to it again."""
    pause_probability: float = 0.02
    """Probability per turn that a member stops, perhaps for longer than its session, and goes on."""
    pause_us_max: int = 1_200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSettings:
    """When applications take snapshots, and how long nodes keep them; the default takes none."""

    records_between: tuple[int, ...] = (0,)
    """Roughly how many records lie between two snapshots of a node; 0: no snapshots."""
    pieces_max: int = 3
    """Largest number of calls in which the records of a snapshot are written."""
    asked_probability: float = 0.0
    """Probability that the host asks a process's application for snapshots, after about 100 bytes per such record."""
    bystander_probability: float = 0.0
    """Probability that each process of a world with snapshots has a second, slow listener that loads none."""
    given_up_probability: float = 0.05
    careless_probability: float = 0.0
    """Probability that an application adds records that cannot be written, and freezes the snapshot all the same."""
    within_batch_probability: float = 0.0
    """Probability that the applications of a world ask for snapshots that end within a batch, too."""
    slice_size_bytes_max: tuple[int, ...] = (500, 4_000, 64_000)
    """Largest number of bytes of one FetchSnapshot."""
    retention_size_bytes_max: tuple[int, ...] = (0, 20_000, 60_000)
    clean_interval_ms: tuple[int, ...] = (50, 300, 1_000)
    delete_delay_ms: tuple[int, ...] = (0, 200, 60_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often faults happen and how long they last; each duration is drawn anew."""

    kind_probability: float = 0.7
    """Probability that a world has a given kind of fault at all (swarm testing)."""
    period_us_min: int = 20_000
    period_us_max: tuple[int, ...] = (150_000, 400_000, 800_000)
    stranger_probability: float = 1.0
    """Probability that a world has strangers, if its scenario has faults by strangers."""
    stranger_us_max: tuple[int, ...] = (400_000, 2_000_000)
    """Longest time between two faults by a stranger."""
    restart_us_max: tuple[int, ...] = (5_000, 100_000, 1_000_000)
    operations_max: int = 12
    """A process that ends within a disk operation, or a disk that fails, does so within this many operations."""
    shutdown_ms: int = 300
    only: tuple[int, ...] | None = None
    """Numbers of the fault decisions that are carried out, None for all; shrinking sets it."""
    skip: float = 0.0
    """The part of the waiting time before a skipped decision that is skipped with it."""
    storm_restarts_max: int = 8
    pause_us_max: tuple[int, ...] = (20_000, 300_000, 2_000_000)
    stall_us_max: tuple[int, ...] = (20_000, 300_000, 2_000_000)
    repair_us_max: tuple[int, ...] = (50_000, 1_000_000)
    """Time until a full disk has room, and a broken one is replaced."""
    wall_jump_ms_max: tuple[int, ...] = (10, 5_000, 86_400_000)
    header_flip_probability: float = 0.0
    """Probability that a bit flip in a log hits an offset or an epoch, which no checksum covers."""
    head_flip_probability: float = 0.0
    """Probability that a bit flip hits the head of a snapshot that is not the newest."""
    emptied_kill_probability: float = 0.0
    """Probability that the start after a disk was emptied is killed, with a power loss a little later."""
    skew_max: float = 0.2
    """How much faster or slower than true time a monotonic clock runs at most."""
    delay_us_max: tuple[int, ...] = (20_000, 200_000)
    """The delay that a slow link adds to every frame."""
    byte_us: tuple[int, ...] = (0, 20, 100)
    """Microseconds per byte on a slow link."""
    network_us_max: tuple[int, ...] = (100_000, 1_000_000, 2_500_000)
    """How long a link flaps, is slow, or holds frames back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """Whether whoever connects proves who it is."""

    protected_probability: float = 0.0
    """Probability that each node of a world has a certificate of its own, and an authorizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All tables; ``faults`` maps each kind to its weight among the others, and 0 switches it off."""

    name: str = "default"
    cluster: ClusterSettings = ClusterSettings()
    membership: MembershipSettings = MembershipSettings()
    course: Course = Course()
    quorum: QuorumSettings = QuorumSettings()
    links: LinkSettings = LinkSettings()
    storage: Storage = Storage()
    work: Work = Work()
    snapshots: SnapshotSettings = SnapshotSettings()
    producers: ProducerSettings = ProducerSettings()
    groups: GroupSettings = GroupSettings()
    security: SecuritySettings = SecuritySettings()
    pace: Pace = Pace()
    faults: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_FAULTS))

    @property
    def has_operator(self) -> bool:
        """True when some fault is a request of an operator."""
        return any(self.faults.get(kind) for kind in MEMBERSHIP)


DEFAULT = Scenario()
