"""The tests of Kafka's raft client that pykraft fails on purpose: which decision, and what Kafka's assertion says.

Invariant: an entry names a test that fails. One that passes is listed in vain, and fails the run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tests.kafka.raft_suite.suite import Outcome

MOST: Final = 25
"""No more of the tests may be decided otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Why a test may fail: the ADRs, what its assertion says, and what pykraft does instead.

    ``parameters``: only the runs whose parameters contain this.
    """

    adrs: tuple[int, ...]
    says: str
    ours: str
    parameters: str = ""


_UNAUTHORIZED: Final = Decision(
    adrs=(160,),
    says="an answer CLUSTER_AUTHORIZATION_FAILED ends the client with an exception",
    ours="a peer's answer ends its connection, with a line for the operator, and never this node",
)

DECIDED: Final[Mapping[str, Decision]] = {
    **{
        f"KafkaRaftClientClusterAuthTest.testClusterAuthorizationFailedIn{api}": _UNAUTHORIZED
        for api in ("Fetch", "BeginQuorumEpoch", "Vote", "EndQuorumEpoch")
    },
    "KafkaRaftClientFetchTest.testFetchMaxBytesBatchesInvariants": Decision(
        adrs=(36,),
        says="an answer is cut at the bytes asked for, within its last batch",
        ours="an answer has whole batches, and at least one",
    ),
    "KafkaRaftClientSnapshotTest.testFetchSnapshotResponseFromOlderEpoch": Decision(
        adrs=(31,),
        says="after an answer of an older epoch the same FetchSnapshot is sent again",
        ours="a follower goes back to Fetch, learns the leader and its snapshot, and resumes",
    ),
    "KafkaRaftClientTest.testObserverReplication": Decision(
        adrs=(118,),
        says="an observer that cannot become a voter does not flush what it appends",
        ours="one with an id may be added to the voters at any time, so it flushes",
        parameters="false",
    ),
}


def decision_on(outcome: Outcome) -> Decision | None:
    """The decision that a failed test falls under; None for any other."""
    decision = DECIDED.get(outcome.name)
    if outcome.problem is None or decision is None:
        return None
    last = outcome.parameters.rpartition("=")[2]
    return decision if not decision.parameters or last == decision.parameters else None


def listed_in_vain(outcomes: Iterable[Outcome]) -> list[str]:
    """Names in the table of which no test failed, among those that ran."""
    ran, failed = set[str](), set[str]()
    for outcome in outcomes:
        ran.add(outcome.name)
        if decision_on(outcome) is not None:
            failed.add(outcome.name)
    return sorted((DECIDED.keys() & ran) - failed)
