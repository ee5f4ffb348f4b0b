package org.apache.kafka.raft;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;

import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.function.IntConsumer;
import java.util.function.Supplier;

/** Answers the questions of tests with what the node said of itself; the state objects only carry its values. */
public class QuorumState {
    private static final int UNKNOWN_ID = -1;

    private final OptionalInt localId;
    private final Uuid localDirectoryId;
    private final Time time;
    private final LogContext logContext;
    private final Supplier<PykraftStatus> status;
    private final Supplier<OptionalLong> highWatermark;
    private final Endpoints localListeners;
    private final SupportedVersionRange localVersions;
    private final IntConsumer resign;
    private CandidateState candidate;

    QuorumState(
        OptionalInt localId,
        Uuid localDirectoryId,
        Time time,
        LogContext logContext,
        Supplier<PykraftStatus> status,
        Supplier<OptionalLong> highWatermark,
        Endpoints localListeners,
        SupportedVersionRange localVersions,
        IntConsumer resign
    ) {
        this.localId = localId;
        this.localDirectoryId = localDirectoryId;
        this.time = time;
        this.logContext = logContext;
        this.status = status;
        this.highWatermark = highWatermark;
        this.localListeners = localListeners;
        this.localVersions = localVersions;
        this.resign = resign;
    }

    private boolean is(String state) {
        return status.get().state.equals(state);
    }

    public OptionalInt localId() {
        return localId;
    }

    public int localIdOrSentinel() {
        return localId.orElse(UNKNOWN_ID);
    }

    public int localIdOrThrow() {
        return localId.orElseThrow();
    }

    public int epoch() {
        return status.get().epoch;
    }

    public OptionalInt leaderId() {
        return status.get().leaderId;
    }

    public int leaderIdOrSentinel() {
        return leaderId().orElse(UNKNOWN_ID);
    }

    public boolean hasLeader() {
        return leaderId().isPresent();
    }

    public LeaderAndEpoch leaderAndEpoch() {
        return new LeaderAndEpoch(leaderId(), epoch());
    }

    public Optional<ReplicaKey> votedKey() {
        return status.get().voted;
    }

    public Optional<LogOffsetMetadata> highWatermark() {
        return highWatermark.get().stream().mapToObj(LogOffsetMetadata::new).findFirst();
    }

    public boolean isVoter() {
        return localId.isPresent() && isVoter(ReplicaKey.of(localIdOrThrow(), localDirectoryId));
    }

    public boolean isVoter(ReplicaKey key) {
        return status.get().voters.isVoter(key);
    }

    public boolean isObserver() {
        return !isVoter();
    }

    public boolean isOnlyVoter() {
        return localId.isPresent() && status.get().voters.isOnlyVoter(ReplicaKey.of(localIdOrThrow(), localDirectoryId));
    }

    public VoterSet.VoterNode localVoterNodeOrThrow() {
        return VoterSet.VoterNode.of(
            ReplicaKey.of(localIdOrThrow(), localDirectoryId), localListeners, localVersions
        );
    }

    public boolean isFollower() {
        return is("Follower");
    }

    public boolean isLeader() {
        return is("Leader");
    }

    public boolean isResigned() {
        return is("Resigned");
    }

    public boolean isCandidate() {
        return is("Candidate");
    }

    public boolean isProspective() {
        return is("Prospective");
    }

    public boolean isProspectiveNotVoted() {
        return isProspective() && votedKey().isEmpty();
    }

    public boolean isProspectiveAndVoted() {
        return isProspective() && votedKey().isPresent();
    }

    public boolean isUnattached() {
        return is("Unattached");
    }

    public boolean isUnattachedNotVoted() {
        return isUnattached() && votedKey().isEmpty();
    }

    public boolean isUnattachedAndVoted() {
        return isUnattached() && votedKey().isPresent();
    }

    public boolean isNomineeState() {
        return isProspective() || isCandidate();
    }

    public void transitionToResigned(List<ReplicaKey> preferredSuccessors) {
        resign.accept(epoch());
    }

    public UnattachedState unattachedStateOrThrow() {
        require(isUnattached());
        PykraftStatus now = status.get();
        return new UnattachedState(
            time, now.epoch, now.leaderId, now.voted, now.voters.voterIds(), highWatermark(), now.electionTimeoutMs, logContext
        );
    }

    public ProspectiveState prospectiveStateOrThrow() {
        require(isProspective());
        PykraftStatus now = status.get();
        return new ProspectiveState(
            time,
            localIdOrThrow(),
            now.epoch,
            now.leaderId,
            Endpoints.empty(),
            now.voted,
            now.voters,
            highWatermark(),
            now.electionTimeoutMs,
            logContext
        );
    }

    public CandidateState candidateStateOrThrow() {
        require(isCandidate());
        PykraftStatus now = status.get();
        candidate = new CandidateState(
            time,
            localIdOrThrow(),
            localDirectoryId,
            now.epoch,
            now.voters,
            highWatermark(),
            now.electionTimeoutMs,
            logContext
        );
        updated();
        return candidate;
    }

    /** A test may keep the state object of a candidate, and look at it later. */
    void updated() {
        if (!isCandidate()) {
            candidate = null;
        }
        if (candidate != null) {
            status.get().rejected.forEach(candidate::recordRejectedVote);
        }
    }

    private void require(boolean isState) {
        if (!isState) {
            throw new IllegalStateException("The node is " + status.get().state);
        }
    }
}
