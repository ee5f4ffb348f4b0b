package org.apache.kafka.raft;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.UnalignedMemoryRecords;
import org.apache.kafka.raft.PykraftLink.Frame;
import org.apache.kafka.raft.PykraftLink.Values;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RawSnapshotReader;
import org.apache.kafka.snapshot.RawSnapshotWriter;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;

/** The log, the snapshots and the election of a test: what was there before a node, and what it keeps. */
final class PykraftFiles {
    private static final int READ_SIZE_BYTES = Integer.MAX_VALUE;

    private final RaftLog log;
    private final QuorumStateStore quorumStateStore;

    PykraftFiles(RaftLog log, QuorumStateStore quorumStateStore) {
        this.log = log;
        this.quorumStateStore = quorumStateStore;
    }

    void keepElection(Values values) {
        int epoch = values.number();
        OptionalInt leaderId = PykraftStatus.optional(values.number());
        OptionalInt votedId = PykraftStatus.optional(values.number());
        Uuid votedDirectoryId = PykraftStatus.uuid(values.bytes());
        Set<Integer> voters = new HashSet<>();
        for (int left = values.number(); left != 0; left--) {
            voters.add(values.number());
        }
        KRaftVersion version = KRaftVersion.fromFeatureLevel((short) values.number());
        Optional<ReplicaKey> voted = votedId.isEmpty()
            ? Optional.empty()
            : Optional.of(ReplicaKey.of(votedId.getAsInt(), votedDirectoryId));
        ElectionState election;
        if (leaderId.isPresent()) {
            election = ElectionState.withElectedLeader(epoch, leaderId.getAsInt(), voted, voters);
        } else if (voted.isPresent()) {
            election = ElectionState.withVotedCandidate(epoch, voted.get(), voters);
        } else {
            election = ElectionState.withUnknownLeader(epoch, voters);
        }
        quorumStateStore.writeElectionState(election, version);
    }

    void keepSnapshot(OffsetAndEpoch snapshotId, ByteBuffer content) {
        log.createNewSnapshotUnchecked(snapshotId).ifPresent(writer -> {
            try (RawSnapshotWriter raw = writer) {
                raw.append(new UnalignedMemoryRecords(content));
                raw.freeze();
            }
        });
    }

    void writeElection(Frame frame) {
        Optional<ElectionState> known = quorumStateStore.readElectionState();
        frame.flag(known.isPresent());
        known.ifPresent(election -> {
            Optional<ReplicaKey> voted = election.optionalVotedKey();
            List<Integer> voters = election.toQuorumStateData((short) 0).currentVoters().stream()
                .map(voter -> voter.voterId())
                .sorted()
                .toList();
            frame.number(election.epoch())
                .number(election.optionalLeaderId().orElse(PykraftLink.NONE))
                .number(voted.map(ReplicaKey::id).orElse(PykraftLink.NONE))
                .bytes(PykraftStatus.bytes(voted.flatMap(ReplicaKey::directoryId).orElse(Uuid.ZERO_UUID)))
                .list(voters, frame::number)
                .number(voters.isEmpty() ? 1 : 0);
        });
    }

    void writeLog(Frame frame) {
        List<RawSnapshotReader> snapshots = new ArrayList<>();
        log.earliestSnapshotId().flatMap(log::readSnapshot).ifPresent(snapshots::add);
        log.latestSnapshotId().flatMap(log::readSnapshot).filter(each -> !snapshots.contains(each)).ifPresent(snapshots::add);
        frame.list(snapshots, snapshot -> {
            frame.number(snapshot.snapshotId().offset()).number(snapshot.snapshotId().epoch());
            frame.bytes(((MemoryRecords) snapshot.records()).buffer());
        });
        frame.number(log.startOffset());
        ByteArrayOutputStream records = new ByteArrayOutputStream();
        MemoryRecords read = read(log.startOffset());
        while (read.sizeInBytes() != 0) {
            ByteBuffer content = read.buffer();
            byte[] found = new byte[content.remaining()];
            content.get(found);
            records.writeBytes(found);
            read = read(read.lastBatch().orElseThrow().nextOffset());
        }
        frame.bytes(records.toByteArray());
    }

    private MemoryRecords read(long offset) {
        return (MemoryRecords) log.read(offset, Isolation.UNCOMMITTED, READ_SIZE_BYTES).records;
    }
}
