"""The verbs of the scenario files, played on one world.

The cluster
    cluster voters=N    starts all nodes; a file begins with it, and may begin anew. Options: ``observers=1``,
                        ``anonymous`` (an observer without id, node 0), ``bootstrap=2,3``, ``auto-join``,
                        ``kraft=1`` (the voters stand in a bootstrap checkpoint), ``unformatted`` (no directory is
                        known to be a voter's; as a rule all are), ``old=3`` (node 3 knows no pre-votes),
                        ``never-leads=3`` (node 3 is a voter that never leads),
                        ``linger=MS``, ``election=MS``, ``flushed-only``, and ``slice=BYTES`` (how much of a
                        snapshot one response holds; each snapshot has 250 bytes)
    elect N             makes N the leader: all work until all is quiet, the followers that N reaches miss their leader
                        (what they send is lost), N's time is over, and all work until all is quiet again
    campaign N          makes N a candidate: its time is over, it wins the pre-votes, and its vote for itself is
                        durable; its Vote requests are on the wire
Time
    timeout N           runs the clock of N on until N changes its state; nobody else notices
    tick MS             passes time for all; disks and network do nothing
    run MS              passes time, while disks and network work
    stabilize           lets disks and network work until all is quiet; no time passes
Disks
    flush N             does all jobs of this disk; takes several nodes, or ``all``
    flush-next N        does its oldest job
    stall N             lets ``run``, ``stabilize`` and ``elect`` leave this disk alone
    mend N              ends that
    crash N             stops N: what it had not flushed is lost, and so are messages from and to it
    restart N           starts it again
    restart-wiped N     starts it with an empty disk
    restart-formatted N starts it with an empty disk that an operator vouches for
    restart-replaced N  starts it with an empty disk that has a directory id of its own
    forget N            loses the quorum-state of N, which is down, as if restored from before its election
    rot N OFFSET        damages the log of N from this offset on; the next start finds it
    find N OFFSET       damages it, and N finds it while it runs
Snapshots
    snapshot N OFFSET   tells N that its application has taken one
    clean N             tells N that nothing before its newest one is needed any more
    bulk N              lets the bulk lane work; it also does when the disk of its node does
Network
    deliver 2 1->3      delivers what is on the wire, one argument after the other: to a node, on a link, or ``all``
    drop A->B           loses what is on the wire on these links
    partition A B | C   cuts every link between nodes of different groups, both ways; nodes not named keep theirs
    cut A->B            cuts links one way
    reset A->B          breaks the connection that A dialed to B: what A asked last gets no answer
    refuse A->B         lets B's machine refuse what A dials, although B runs and may serve others; ``heal`` ends that
    heal                mends all links
    tamper A->B F=V     changes the Fetch response on the wire: see ``tamper``
Requests
    append N COUNT      proposes records
    hear N OFFSET EPOCH tells N, outside of Raft's own RPCs, what a leader of this epoch committed
    upgrade N LEVEL     asks for a kraft.version
    transfer N TO MS    asks leader N to hand over to TO within this time
    resign N            asks N to give up its leadership
    shutdown N          asks N to leave within 5,000 ms
    ask N WHAT F=V      hands N a request of somebody outside, node 99 (see ``asks``), and node 99 the response, unless
                        that waits for the disk or for anything else: then ``deliver N->99`` comes later
Telling
    state N             tells where these nodes stand, or all nodes
"""

from collections.abc import Callable, Mapping
from itertools import product

from pykraft.config import RaftConfig
from pykraft.core import events, messages
from pykraft.core.proof import PROVEN, Proof
from pykraft.types import Damage, Epoch, NodeId, Offset
from tests.scenarios import asks, tell
from tests.scenarios.disk import Disk
from tests.scenarios.message import Message, is_meant, link_of
from tests.scenarios.tamper import tampered
from tests.scenarios.world import OBSERVER_WITHOUT_ID, OUTSIDER, Node, World, reset

ROUNDS_MAX = 200
UNPROVEN = Proof(is_complete=False)
OPTIONS = frozenset(
    {"voters", "observers", "anonymous", "bootstrap", "auto-join", "kraft", "unformatted", "old"}
    | {"linger", "election", "flushed-only", "slice", "never-leads"}
)
"""What ``cluster`` takes."""


class Stage:
    """Plays commands on one world."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._stalled: set[int] = set()
        self.verbs: Mapping[str, Callable[[list[str]], None]] = {
            "cluster": self._cluster,
            "elect": self._elect,
            "campaign": self._campaign,
            "timeout": self._timeout,
            "tick": self._tick,
            "run": self._run,
            "stabilize": self._stabilize,
            "flush": self._flush,
            "flush-next": self._flush_next,
            "stall": self._stall,
            "mend": self._mend,
            "crash": self._crash,
            "restart": self._restart,
            "restart-wiped": self._restart_wiped,
            "restart-formatted": self._restart_formatted,
            "restart-replaced": self._restart_replaced,
            "forget": self._forget,
            "rot": self._rot,
            "find": self._find,
            "snapshot": self._snapshot,
            "clean": self._clean,
            "bulk": self._bulk,
            "deliver": self._deliver,
            "drop": self._drop,
            "partition": self._partition,
            "cut": self._cut,
            "reset": self._reset,
            "refuse": self._refuse,
            "heal": self._heal,
            "tamper": self._tamper,
            "append": self._append,
            "hear": self._commit_heard,
            "upgrade": self._upgrade,
            "transfer": self._transfer,
            "resign": self._resign,
            "shutdown": self._shutdown,
            "ask": self._ask,
            "state": self._state,
        }

    @property
    def world(self) -> World:
        assert self._world is not None, "a scenario begins with: cluster voters=N"
        return self._world

    def play(self, command: str) -> list[str]:
        """Run one command; returns the lines that it told."""
        verb, *arguments = command.split()
        self.verbs[verb](arguments)
        lines, self.world.lines = self.world.lines, []
        return lines

    def _cluster(self, arguments: list[str]) -> None:
        options = dict(argument.split("=") for argument in arguments if "=" in argument)
        assert {argument.partition("=")[0] for argument in arguments} <= OPTIONS, arguments
        config = RaftConfig(
            append_linger_ms=int(options.get("linger", "0")),
            election_timeout_ms=int(options.get("election", "1000")),
            leader_send_flushed_only="flushed-only" in arguments,
            auto_join="auto-join" in arguments,
            fetch_snapshot_size_bytes_max=int(options.get("slice", "1000")),
        )
        voters, observers = int(options["voters"]), int(options.get("observers", "0"))
        others = list(range(voters + 1, voters + observers + 1))
        if "anonymous" in arguments:
            others.append(OBSERVER_WITHOUT_ID)
        self._world = World(
            voters=voters,
            others=others,
            bootstrap=_ids(options.get("bootstrap", "")),
            config=config,
            kraft_version=int(options.get("kraft", "0")),
            never_leading=frozenset(_ids(options.get("never-leads", ""))),
        )
        self._world.without_pre_vote = set(_ids(options.get("old", "")))
        for node in self.world.running():
            if "unformatted" in arguments:
                self.world.nodes[node.node_id] = Node(self.world, node.node_id, Disk(proof=UNPROVEN))
            self.world.start(node.node_id)

    def _elect(self, arguments: list[str]) -> None:
        (candidate,) = self._nodes(arguments)
        self._stabilize([])
        # A follower that fetches from a leader denies pre-votes: those that the candidate reaches miss theirs first.
        for node in self.world.running():
            if node.raft.status.role == "follower" and node is not candidate and self._is_reachable(candidate, node):
                self._timeout([str(node.node_id)])
                self.world.wire = [message for message in self.world.wire if message.source != node.node_id]
        self._timeout(arguments)
        self._stabilize([])
        assert candidate.raft.status.role == "leader", f"node {candidate.node_id} was not elected"

    def _is_reachable(self, one: Node, other: Node) -> bool:
        return not {(one.node_id, other.node_id), (other.node_id, one.node_id)} & self.world.cuts

    def _campaign(self, arguments: list[str]) -> None:
        (candidate,) = self._nodes(arguments)
        self._timeout(arguments)
        for message in [sent for sent in self.world.wire if sent.source == candidate.node_id]:
            self.world.deliver(message)
        self._deliver(arguments)
        candidate.flush()
        assert candidate.raft.status.role == "candidate", f"node {candidate.node_id} did not win the pre-votes"

    def _timeout(self, arguments: list[str]) -> None:
        node = self.world.nodes[int(arguments[0])]
        before = (node.raft.status.role, node.raft.status.epoch)
        for _ in range(ROUNDS_MAX):
            deadline_ms = node.deadline_ms()
            assert deadline_ms is not None, f"node {node.node_id} waits for nothing"
            node.ahead_ms += max(0, deadline_ms - self.world.now_ms)
            node.step(events.TimerDue())
            if (node.raft.status.role, node.raft.status.epoch) != before:
                return
        raise AssertionError(f"node {node.node_id} stays {before}")

    def _tick(self, arguments: list[str]) -> None:
        end_ms = self.world.now_ms + int(arguments[0])
        for _ in range(ROUNDS_MAX * 10):
            due = [
                (deadline_ms, node.node_id)
                for node in self.world.running()
                if (deadline_ms := node.deadline_ms()) is not None and deadline_ms <= end_ms
            ]
            if not due:
                self.world.now_ms = end_ms
                return
            deadline_ms, node_id = min(due)
            self.world.now_ms = max(self.world.now_ms, deadline_ms)
            self.world.nodes[node_id].step(events.TimerDue())
        raise AssertionError("somebody wants to act again and again, and time stands still")

    def _run(self, arguments: list[str]) -> None:
        end_ms = self.world.now_ms + int(arguments[0])
        self._stabilize([])
        while self.world.now_ms < end_ms:
            deadlines_ms = [node.deadline_ms() for node in self.world.running()]
            next_ms = min((deadline for deadline in deadlines_ms if deadline is not None), default=end_ms)
            self._tick([str(max(0, min(next_ms, end_ms) - self.world.now_ms))])
            self._stabilize([])

    def _stabilize(self, arguments: list[str]) -> None:
        assert not arguments
        for _ in range(ROUNDS_MAX):
            working = [node for node in self.world.running() if node.node_id not in self._stalled]
            if not self.world.wire and not any(node.jobs or node.bulk for node in working):
                return
            for node in working:
                node.flush()
                node.do_bulk()
            self._deliver(["all"])
        raise AssertionError("the cluster does not come to rest")

    def _flush(self, arguments: list[str]) -> None:
        for node in self._nodes(arguments):
            node.flush()
            node.do_bulk()

    def _flush_next(self, arguments: list[str]) -> None:
        for node in self._nodes(arguments):
            node.flush(1)

    def _stall(self, arguments: list[str]) -> None:
        self._stalled |= {node.node_id for node in self._nodes(arguments)}

    def _mend(self, arguments: list[str]) -> None:
        self._stalled -= {node.node_id for node in self._nodes(arguments)}

    def _crash(self, arguments: list[str]) -> None:
        for argument in arguments:
            self.world.crash(int(argument))

    def _restart(self, arguments: list[str]) -> None:
        self.world.restart(int(arguments[0]))

    def _restart_wiped(self, arguments: list[str]) -> None:
        self.world.restart(int(arguments[0]), empty=UNPROVEN)

    def _restart_formatted(self, arguments: list[str]) -> None:
        self.world.restart(int(arguments[0]), empty=PROVEN)

    def _forget(self, arguments: list[str]) -> None:
        self.world.crashed[int(arguments[0])].election = None

    def _rot(self, arguments: list[str]) -> None:
        node_id, offset = map(int, arguments)
        if node_id in self.world.nodes:
            self.world.nodes[node_id].damage(_damage(offset))
        else:
            disk = self.world.crashed[node_id]
            disk.damages = (*disk.damages, _damage(offset))

    def _find(self, arguments: list[str]) -> None:
        self._rot(arguments)
        self.world.nodes[int(arguments[0])].step(events.CorruptionFound(damage=_damage(int(arguments[1]))))

    def _restart_replaced(self, arguments: list[str]) -> None:
        self.world.restart(int(arguments[0]), empty=Proof(is_complete=False, has_fresh_id=True))

    def _upgrade(self, arguments: list[str]) -> None:
        node = self.world.nodes[int(arguments[0])]
        node.step(events.UpgradeRequested(handle=1, epoch=node.raft.status.epoch, version=int(arguments[1])))

    def _transfer(self, arguments: list[str]) -> None:
        node_id, target_id, timeout_ms = map(int, arguments)
        node = self.world.nodes[node_id]
        event = events.TransferRequested(
            handle=2, epoch=node.raft.status.epoch, target_id=NodeId(target_id), timeout_ms=timeout_ms
        )
        node.step(event)

    def _deliver(self, arguments: list[str]) -> None:
        for argument in arguments:
            for message in [waiting for waiting in self.world.wire if is_meant(waiting, argument)]:
                if message in self.world.wire:
                    self.world.deliver(message)

    def _drop(self, arguments: list[str]) -> None:
        dropped = [message for argument in arguments for message in self._on_link(argument)]
        self.world.wire = [message for message in self.world.wire if message not in dropped]

    def _partition(self, arguments: list[str]) -> None:
        first, *others = [frozenset(map(int, group.split())) for group in " ".join(arguments).split("|")]
        assert others, "a partition has two groups or more: partition 1 | 2 3"
        for group in others:
            self.world.cuts |= {*product(first, group), *product(group, first)}
            first |= group

    def _cut(self, arguments: list[str]) -> None:
        links = {link_of(argument) for argument in arguments}
        assert not links & {(target, source) for source, target in links}, "cuts both ways: partition A | B"
        self.world.cuts |= links

    def _heal(self, arguments: list[str]) -> None:
        assert not arguments
        self.world.cuts.clear()
        self.world.refusing.clear()

    def _reset(self, arguments: list[str]) -> None:
        for source, target in map(link_of, arguments):
            reset(self.world, source, target)

    def _refuse(self, arguments: list[str]) -> None:
        self.world.refusing |= {link_of(argument) for argument in arguments}

    def _tamper(self, arguments: list[str]) -> None:
        (message,) = [one for one in self._on_link(arguments[0]) if isinstance(one.body, messages.FetchResponse)]
        for argument in arguments[1:]:
            field, value = argument.split("=")
            message.body = tampered(message.body, field, int(value))

    def _append(self, arguments: list[str]) -> None:
        self.world.propose(int(arguments[0]), int(arguments[1]))

    def _commit_heard(self, arguments: list[str]) -> None:
        node_id, end_offset, epoch = map(int, arguments)
        self.world.nodes[node_id].step(events.CommitHeard(epoch=Epoch(epoch), end_offset=Offset(end_offset)))

    def _snapshot(self, arguments: list[str]) -> None:
        node_id, offset = map(int, arguments)
        self.world.nodes[node_id].take_snapshot(Offset(offset))
        self.world.nodes[node_id].do_bulk()

    def _clean(self, arguments: list[str]) -> None:
        node = self.world.nodes[int(arguments[0])]
        newest = node.raft.log.latest_snapshot
        assert newest is not None
        node.step(events.SnapshotsExpired(oldest_kept=newest))

    def _bulk(self, arguments: list[str]) -> None:
        for node in self._nodes(arguments):
            node.do_bulk()

    def _resign(self, arguments: list[str]) -> None:
        node = self.world.nodes[int(arguments[0])]
        node.step(events.ResignRequested(epoch=node.raft.status.epoch))

    def _shutdown(self, arguments: list[str]) -> None:
        self.world.nodes[int(arguments[0])].step(events.ShutdownRequested(timeout_ms=5_000))

    def _ask(self, arguments: list[str]) -> None:
        target, what, *fields = arguments
        numbers = {name: int(value) for name, value in (field.split("=") for field in fields)}
        self.world.ask(int(target), asks.REQUESTS[what](numbers))
        self._deliver([f"{OUTSIDER}->{target}", f"{target}->{OUTSIDER}"])

    def _state(self, arguments: list[str]) -> None:
        for node in self._nodes(arguments or ["all"]):
            self.world.say(tell.state(node.node_id, node.raft))

    def _nodes(self, arguments: list[str]) -> list[Node]:
        if arguments == ["all"]:
            return self.world.running()
        return [self.world.nodes[int(argument)] for argument in arguments]

    def _on_link(self, link: str) -> list[Message]:
        return [message for message in self.world.wire if (message.source, message.target) == link_of(link)]


def _ids(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _damage(offset: int) -> Damage:
    return Damage(path="log", position=100 * offset, start_offset=Offset(offset), expected="CRC 1", found="CRC 2")
