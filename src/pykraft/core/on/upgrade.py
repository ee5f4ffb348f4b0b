"""The upgrade of ``kraft.version`` from 0 to 1: the static voters, as they told themselves, move into the log.

Level and voter set are one batch, so that nobody ever sees one without the other. There is no way back.

Source: KIP-853 §Upgrade, KAFKA-16538; Kafka ``KRaftVersionUpgrade``.
"""

from __future__ import annotations

from pykraft.core.effects import AnswerWish
from pykraft.core.events import UpgradeRequested
from pykraft.core.on.voter_changes import write_membership
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import NotLeaderError, PykraftError, UsageError
from pykraft.types import Instant, KRaftVersion, KRaftVoters


def on_upgrade_requested(replica: Replica, event: UpgradeRequested, now: Instant) -> None:
    """Append the level and the voters, if all of them support it; asking again changes nothing.

    Effects: AppendBatches, AnswerWish.
    Errors (in AnswerWish): NotLeaderError; UsageError for a downgrade, an unknown level, a voter that does not
    support it or has not told its directory id yet.
    Source: KIP-853; LeaderState.maybeAppendUpgradedKRaftVersion.
    """
    error = _refusal(replica, event)
    if error is None and not event.validate_only and event.version != replica.kraft_version:
        leader = replica.state
        assert isinstance(leader, Leader)
        write_membership(replica, leader, (KRaftVersion(event.version), KRaftVoters(leader.volatile_voters)), now)
    replica.outbox.add(AnswerWish(handle=event.handle, error=error))


def _refusal(replica: Replica, event: UpgradeRequested) -> PykraftError | None:
    leader, level = replica.state, replica.kraft_version
    if not isinstance(leader, Leader) or event.epoch < leader.epoch:
        return NotLeaderError(replica.leader_id if replica.has_remote_leader else None, replica.epoch)
    if event.epoch > leader.epoch:
        return UsageError(f"epoch {event.epoch} has not begun: this node leads epoch {leader.epoch}")
    if event.version == level:
        return None
    if event.version < level:
        return UsageError(f"kraft.version is {level} and cannot go back to {event.version}")
    for voter in leader.volatile_voters.voters:
        low, high = voter.kraft_version.min_version, voter.kraft_version.max_version
        if not low <= event.version <= high:
            return UsageError(f"voter {voter.key.id} supports kraft.version {low} to {high}, not {event.version}")
        if voter.key.directory_id is None:
            return UsageError(f"voter {voter.key.id} has not told its directory id yet: try again when it runs")
    if replica.transfer is not None:
        return UsageError("the leadership is being transferred: try again")
    if leader.high_watermark is None:
        return UsageError("nothing of this epoch is committed yet: try again")
    return None
