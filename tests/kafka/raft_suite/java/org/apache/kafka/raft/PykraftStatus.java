package org.apache.kafka.raft;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.network.ListenerName;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;

/** What the node said of itself at the end of the last call. */
final class PykraftStatus {
    final boolean wantsPoll;
    /** A listener that has not read yet would be called. */
    final boolean hasMore;
    final OptionalLong timeoutMs;
    final boolean isRunning;
    final boolean isShuttingDown;
    final boolean ignoresStaticVoters;
    final String state;
    final int epoch;
    final OptionalInt leaderId;
    final OptionalLong highWatermark;
    final long logEndOffset;
    final int kraftVersion;
    final Optional<ReplicaKey> voted;
    final VoterSet voters;
    final int electionTimeoutMs;
    final List<Integer> rejected = new ArrayList<>();
    final long sleepsUntilMs;
    final Set<String> metrics;
    final long result;

    /** Voters and names of metrics are told when they change. */
    PykraftStatus(PykraftLink.Values values, PykraftStatus before) {
        wantsPoll = values.flag();
        hasMore = values.flag();
        timeoutMs = optional(values.large());
        isRunning = values.flag();
        isShuttingDown = values.flag();
        ignoresStaticVoters = values.flag();
        state = values.text();
        epoch = values.number();
        leaderId = optional(values.number());
        highWatermark = optional(values.large());
        logEndOffset = values.large();
        kraftVersion = values.number();
        voted = values.flag() ? Optional.of(ReplicaKey.of(values.number(), uuid(values.bytes()))) : Optional.empty();
        voters = values.flag() ? voters(values) : before.voters;
        electionTimeoutMs = (int) values.large();
        for (int left = values.number(); left != 0; left--) {
            rejected.add(values.number());
        }
        sleepsUntilMs = values.large();
        if (values.flag()) {
            metrics = new HashSet<>();
            for (int left = values.number(); left != 0; left--) {
                metrics.add(values.text());
            }
        } else {
            metrics = before.metrics;
        }
        result = values.large();
    }

    static Uuid uuid(ByteBuffer bytes) {
        return new Uuid(bytes.getLong(), bytes.getLong());
    }

    static byte[] bytes(Uuid id) {
        return ByteBuffer.allocate(16).putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()).array();
    }

    static OptionalInt optional(int value) {
        return value == PykraftLink.NONE ? OptionalInt.empty() : OptionalInt.of(value);
    }

    static OptionalLong optional(long value) {
        return value == PykraftLink.NONE ? OptionalLong.empty() : OptionalLong.of(value);
    }

    private static VoterSet voters(PykraftLink.Values values) {
        Map<Integer, VoterSet.VoterNode> found = new HashMap<>();
        for (int left = values.number(); left != 0; left--) {
            int id = values.number();
            Uuid directoryId = uuid(values.bytes());
            Endpoints listeners = endpoints(values);
            SupportedVersionRange versions = new SupportedVersionRange((short) values.number(), (short) values.number());
            found.put(id, VoterSet.VoterNode.of(ReplicaKey.of(id, directoryId), listeners, versions));
        }
        return found.isEmpty() ? VoterSet.empty() : VoterSet.fromMap(found);
    }

    private static Endpoints endpoints(PykraftLink.Values values) {
        Map<ListenerName, InetSocketAddress> found = new HashMap<>();
        for (int left = values.number(); left != 0; left--) {
            ListenerName name = ListenerName.normalised(values.text());
            found.put(name, InetSocketAddress.createUnresolved(values.text(), values.number()));
        }
        return found.isEmpty() ? Endpoints.empty() : Endpoints.fromInetSocketAddresses(found);
    }
}
