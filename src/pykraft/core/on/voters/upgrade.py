"""The upgrade of ``kraft.version`` from 0 to 1: the static voters move into the log, with what each has told of itself.

There is no downgrade.

Source: KIP-853 §Upgrade, KAFKA-16538; Kafka ``KRaftVersionUpgrade``.
"""

from pykraft.core.effects import CompletePendingRequest
from pykraft.core.events import RequestReceived, UpgradeRequested
from pykraft.core.leader.pending import Upgrade
from pykraft.core.messages import ChangeVoterResponse, UpdateFeaturesRequest
from pykraft.core.never_leads import appends_nothing
from pykraft.core.on.requests import reply
from pykraft.core.on.voters.voter_changes import NEVER_LEADS, why_behind, why_in_doubt, write_membership
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode, NotLeaderError, PykraftError, UsageError
from pykraft.types import Instant, KRaftVersion, KRaftVoters, Offset, uuid_text


def on_upgrade_requested(replica: Replica, event: UpgradeRequested, now: Instant) -> None:
    """Append the level and the voters if all of them support it; a repeated request changes nothing.

    Effects: AppendBatches, CompletePendingRequest.
    Errors (in CompletePendingRequest): NotLeaderError; UsageError for a downgrade, an unknown level, or a voter that
    does not support the level or has not told its directory id yet.
    Source: KIP-853; LeaderState.maybeAppendUpgradedKRaftVersion.
    """
    error: PykraftError | None = None
    leader = replica.state
    if not isinstance(leader, Leader) or event.epoch < leader.epoch:
        error = NotLeaderError(replica.leader_id if replica.has_remote_leader else None, replica.epoch)
    elif event.epoch > leader.epoch:
        error = UsageError(f"epoch {event.epoch} has not begun: this node leads epoch {leader.epoch}")
    else:
        error = _refusal(replica, leader, event.version)
        if error is None and not event.validate_only and event.version != replica.kraft_version:
            _write(replica, leader, event.version, now)
    replica.outbox.add(CompletePendingRequest(handle=event.handle, error=error))


def on_update_features_request(
    replica: Replica, event: RequestReceived, message: UpdateFeaturesRequest, now: Instant
) -> None:
    """The same for an operator, who gets the answer when the upgrade commits.

    Effects: AppendBatches; Reply, at once when nothing is to be done.
    Errors: NOT_CONTROLLER, INVALID_UPDATE_VERSION with the reason, REQUEST_TIMED_OUT when it is not committed in time.
    Source: KIP-584; Kafka's ``QuorumController.updateFeatures``.
    """
    leader, level = replica.state, message.kraft_version
    if not isinstance(leader, Leader) or replica.is_shutting_down:
        answer = ChangeVoterResponse(error=ErrorCode.NOT_CONTROLLER, error_message="this node does not lead")
        reply(replica, event.request_id, answer)
        return
    refusal = _refusal(replica, leader, level)
    # The level is in force from its append on; do not confirm it before it commits.
    if refusal is None and level == replica.kraft_version > 0 and (in_doubt := why_in_doubt(replica, leader))[0]:
        answer = ChangeVoterResponse(error=in_doubt[0], error_message=in_doubt[1])
    elif refusal is not None:
        answer = ChangeVoterResponse(error=ErrorCode.INVALID_UPDATE_VERSION, error_message=str(refusal))
    elif message.validate_only or level == replica.kraft_version:
        answer = ChangeVoterResponse(error=ErrorCode.NONE)
    else:
        leader.change = Upgrade(
            request_id=event.request_id,
            deadline_ms=now.mono_ms + replica.config.request_timeout_ms,
            offset=_write(replica, leader, level, now),
        )
        return
    reply(replica, event.request_id, answer)


def _write(replica: Replica, leader: Leader, version: int, now: Instant) -> Offset:
    # One batch, so that no replica ever has the level without the voters.
    return write_membership(replica, leader, (KRaftVersion(version), KRaftVoters(leader.volatile_voters)), now)


def _refusal(replica: Replica, leader: Leader, version: int) -> UsageError | None:
    level = replica.kraft_version
    if version == level:
        return None
    if version < level:
        return UsageError(f"kraft.version is {level} and cannot go back to {version}")
    for voter in leader.volatile_voters.voters:
        if voter.key.directory_id is None:
            return UsageError(
                f"voter {voter.key.id} has not reported its directory id to this leader yet, which it does within "
                "a few fetch timeouts of the election: start it if it is down, and try again"
            )
        # What it told would be its name in the log for good, and nobody signs a report.
        if (known := leader.progress.twin_of(voter.key)) is not None:
            assert known.directory_id is not None, "who has a twin has told its directory id"
            fetches, reports = uuid_text(known.directory_id), uuid_text(voter.key.directory_id)
            return UsageError(
                f"voter {voter.key.id} fetches with directory id {fetches}, and {reports} was reported in its name: "
                "see that one process has this node id, let another voter lead, and try again"
            )
        low, high = voter.kraft_version.min_version, voter.kraft_version.max_version
        if not low <= version <= high:
            return UsageError(f"voter {voter.key.id} supports kraft.version {low} to {high}, not {version}")
    highest = replica.local.kraft_version.max_version
    if version > highest:
        return UsageError(f"the leader supports kraft.version up to {highest}, not {version}")
    if appends_nothing(replica):
        return UsageError(NEVER_LEADS)
    if replica.transfer is not None:
        return UsageError("the leadership is being transferred: try again")
    # The leader is asking a voter at its new endpoint, which the set of the upgrade should have.
    if leader.change is not None:
        return UsageError("a voter reports its endpoints at the moment: try again")
    if leader.high_watermark is None:
        return UsageError("nothing of this epoch is committed yet: try again")
    behind, text = why_behind(leader)
    return UsageError(str(text)) if behind else None
