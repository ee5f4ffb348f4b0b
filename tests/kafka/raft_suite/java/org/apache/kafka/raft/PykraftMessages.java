package org.apache.kafka.raft;

import org.apache.kafka.common.message.AddRaftVoterRequestData;
import org.apache.kafka.common.message.DescribeQuorumResponseData;
import org.apache.kafka.common.message.EndQuorumEpochRequestData;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.UnalignedMemoryRecords;

import java.nio.ByteBuffer;

/** Bytes of the node as Java's messages. */
final class PykraftMessages {
    private final String topicName;
    private final Endpoints localListeners;

    /** Without listeners the node has one that no message names. */
    PykraftMessages(String topicName, Endpoints localListeners) {
        this.topicName = topicName;
        this.localListeners = localListeners;
    }

    /** Reads the body into the message. */
    ApiMessage read(ApiMessage message, ByteBuffer body, short version) {
        message.read(new ByteBufferAccessor(body), version);
        complete(message);
        return message;
    }

    /** What Java's objects have and the bytes do not: the topic's name beside its id, and a class for cut off records. */
    private void complete(ApiMessage message) {
        if (message instanceof FetchRequestData fetch) {
            fetch.topics().forEach(topic -> topic.setTopic(topicName));
        } else if (message instanceof AddRaftVoterRequestData joining && localListeners.isEmpty()) {
            joining.setListeners(localListeners.toAddVoterRequest());
        } else if (message instanceof DescribeQuorumResponseData described) {
            described.topics().forEach(topic -> topic.partitions().forEach(partition -> {
                // Tests compare Java's words, which a version of the wire format may lack.
                Errors error = Errors.forCode(partition.errorCode());
                partition.setErrorMessage(error == Errors.NONE ? partition.errorMessage() : error.message());
            }));
        } else if (message instanceof EndQuorumEpochRequestData resigned) {
            resigned.topics().forEach(topic -> topic.partitions().forEach(partition ->
                partition.setPreferredSuccessors(
                    partition.preferredCandidates().stream().map(candidate -> candidate.candidateId()).toList()
                )
            ));
        } else if (message instanceof FetchResponseData fetched) {
            fetched.responses().forEach(topic -> topic.setTopic(topicName));
        } else if (message instanceof FetchSnapshotResponseData fetched) {
            fetched.topics().forEach(topic -> topic.partitions().forEach(partition -> {
                if (partition.unalignedRecords() instanceof MemoryRecords records) {
                    partition.setUnalignedRecords(new UnalignedMemoryRecords(records.buffer()));
                }
            }));
        }
    }
}
