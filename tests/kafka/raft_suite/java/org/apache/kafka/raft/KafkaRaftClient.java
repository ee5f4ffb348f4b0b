package org.apache.kafka.raft;

import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.InvalidUpdateVersionException;
import org.apache.kafka.common.errors.RecordBatchTooLargeException;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.message.AddRaftVoterRequestData;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.RequestUtils;
import org.apache.kafka.common.requests.ResponseHeader;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.raft.PykraftLink.Frame;
import org.apache.kafka.raft.PykraftLink.Values;
import org.apache.kafka.raft.errors.BufferAllocationException;
import org.apache.kafka.raft.errors.NotLeaderException;
import org.apache.kafka.raft.internals.BatchMemoryPool;
import org.apache.kafka.raft.internals.RecordsBatchReader;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.common.serialization.RecordSerde;
import org.apache.kafka.snapshot.RawSnapshotReader;
import org.apache.kafka.snapshot.RecordsSnapshotReader;
import org.apache.kafka.snapshot.SnapshotWriter;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Queue;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;

/**
 * A client whose work is done by pykraft in another process: it forwards what tests ask, and does to the log, the
 * network, the files and the listeners of the test what the node did. It decides nothing about Raft.
 */
public final class KafkaRaftClient<T> implements RaftClient<T> {
    public static final int MAX_BATCH_SIZE_BYTES = 8 * 1024 * 1024;

    private static final String CLIENT_ID = "raft";
    private static final String METRIC_GROUP = "raft-metrics";
    /** Measured by the loop that polls, which is the test's here. */
    private static final String IDLE_RATIO = "poll-idle-ratio-avg";

    private final OptionalInt nodeId;
    private final Uuid nodeDirectoryId;
    private final RecordSerde<T> serde;
    private final NetworkChannel channel;
    private final RaftMessageQueue messageQueue;
    private final RaftLog log;
    private final MemoryPool memoryPool;
    private final Time time;
    private final int fetchMaxWaitMs;
    private final boolean canBecomeVoter;
    private final String clusterId;
    private final Collection<InetSocketAddress> bootstrapServers;
    private final Endpoints localListeners;
    private final SupportedVersionRange localVersions;
    private final LogContext logContext;
    private final Random random;
    private final QuorumConfig quorumConfig;

    private final PykraftLink link = PykraftLink.shared();
    private final int number = link.newClient(this);
    private final Map<Integer, RaftRequest.Inbound> asked = new HashMap<>();
    private final Map<Integer, Sent> sent = new HashMap<>();
    private final Map<Integer, Listener<T>> listeners = new HashMap<>();
    private final Queue<Runnable> registrations = new ArrayDeque<>();
    private final Queue<Integer> released = new ArrayDeque<>();
    private final Set<String> metricNames = new HashSet<>();
    private Set<String> told;
    private final CompletableFuture<Void> shutdown = new CompletableFuture<>();
    private PykraftFiles files;
    private PykraftMessages messages;
    private Metrics metrics;
    private ExternalKRaftMetrics externalMetrics;
    private QuorumState quorum;
    private PykraftStatus status;
    /** Of the log that tests see: it follows what is postponed. */
    private OptionalLong highWatermark = OptionalLong.empty();
    private ByteBuffer batchBuffer;
    private final Queue<Runnable> postponed = new ArrayDeque<>();
    private final Queue<Runnable> callbacks = new ArrayDeque<>();
    private boolean isPolling = false;
    private boolean isTicking = false;
    private int requests = 0;
    private int listenersEver = 0;
    private Throwable problem;

    /** A request of the node that waits for its answer. */
    private record Sent(int connection, ApiKeys api, short version, int correlationId) { }

    @SuppressWarnings("ParameterNumber")
    public KafkaRaftClient(
        OptionalInt nodeId,
        Uuid nodeDirectoryId,
        RecordSerde<T> serde,
        NetworkChannel channel,
        RaftMessageQueue messageQueue,
        RaftLog log,
        MemoryPool memoryPool,
        Time time,
        ExpirationService expirationService,
        int fetchMaxWaitMs,
        boolean canBecomeVoter,
        String clusterId,
        Collection<InetSocketAddress> bootstrapServers,
        Endpoints localListeners,
        SupportedVersionRange localSupportedKRaftVersion,
        LogContext logContext,
        Random random,
        QuorumConfig quorumConfig
    ) {
        this.nodeId = nodeId;
        this.nodeDirectoryId = nodeDirectoryId;
        this.serde = serde;
        this.channel = channel;
        this.messageQueue = messageQueue;
        this.log = log;
        this.memoryPool = memoryPool;
        this.time = time;
        this.fetchMaxWaitMs = fetchMaxWaitMs;
        this.canBecomeVoter = canBecomeVoter;
        this.clusterId = clusterId;
        this.bootstrapServers = bootstrapServers;
        this.localListeners = localListeners;
        this.localVersions = localSupportedKRaftVersion;
        this.logContext = logContext;
        this.random = random;
        this.quorumConfig = quorumConfig;
    }

    public void initialize(
        Map<Integer, InetSocketAddress> voterAddresses,
        QuorumStateStore quorumStateStore,
        Metrics metrics,
        ExternalKRaftMetrics externalKRaftMetrics
    ) {
        this.files = new PykraftFiles(log, quorumStateStore);
        this.messages = new PykraftMessages(log.topicPartition().topic(), localListeners);
        this.metrics = metrics;
        this.externalMetrics = externalKRaftMetrics;
        this.quorum = new QuorumState(nodeId, nodeDirectoryId, time, logContext, () -> status, this::highWatermark, localListeners, localVersions, this::resignAtOnce);
        Frame frame = call(PykraftLink.OPEN)
            .number(nodeId.orElse(PykraftLink.NONE))
            .bytes(PykraftStatus.bytes(nodeDirectoryId))
            .text(clusterId)
            .text(log.topicPartition().topic())
            .bytes(PykraftStatus.bytes(log.topicId()))
            .text(channel.listenerName().value());
        writeListeners(frame);
        List<Integer> voterIds = voterAddresses.keySet().stream().sorted().toList();
        frame.list(voterIds, id -> {
            frame.number(id);
            writeAddress(frame, voterAddresses.get(id));
        });
        frame.list(List.copyOf(bootstrapServers), address -> writeAddress(frame, address));
        frame.number(quorumConfig.electionTimeoutMs())
            .number(quorumConfig.fetchTimeoutMs())
            .number(quorumConfig.electionBackoffMaxMs())
            .number(quorumConfig.appendLingerMs())
            .number(quorumConfig.requestTimeoutMs())
            .number(quorumConfig.retryBackoffMs())
            .number(quorumConfig.fetchMaxBytes())
            .number(quorumConfig.fetchSnapshotMaxBytes())
            .number(fetchMaxWaitMs)
            .flag(quorumConfig.autoJoin())
            .flag(canBecomeVoter);
        frame.list(List.of(ApiKeys.values()), key ->
            frame.number(key.id).number((int) key.oldestVersion()).number((int) key.latestVersion())
        );
        files.writeElection(frame);
        files.writeLog(frame);
        ask(frame);
        updateMetrics();
    }

    @Override
    public void register(Listener<T> listener) {
        registrations.add(() -> {
            if (listeners.containsValue(listener)) {
                return;
            }
            int found = listenersEver++;
            listeners.put(found, listener);
            ask(call(PykraftLink.REGISTER).number(found));
            released.add(found);
        });
        messageQueue.wakeup();
    }

    @Override
    public void unregister(Listener<T> listener) {
        registrations.add(() ->
            listeners.entrySet().stream().filter(each -> each.getValue() == listener).findFirst().ifPresent(found -> {
                listeners.remove(found.getKey());
                ask(call(PykraftLink.UNREGISTER).number(found.getKey()));
            })
        );
    }

    @Override
    public LeaderAndEpoch leaderAndEpoch() {
        return status == null ? LeaderAndEpoch.UNKNOWN : quorum.leaderAndEpoch();
    }

    @Override
    public OptionalInt nodeId() {
        return nodeId;
    }

    @Override
    public OptionalLong highWatermark() {
        return highWatermark;
    }

    @Override
    public long logEndOffset() {
        return log.endOffset().offset();
    }

    @Override
    public KRaftVersion kraftVersion() {
        requireInitialized();
        return KRaftVersion.fromFeatureLevel((short) status.kraftVersion);
    }

    @Override
    public Optional<Node> voterNode(int id, ListenerName listenerName) {
        return status.voters.voterNode(id, listenerName);
    }

    @Override
    public Optional<OffsetAndEpoch> latestSnapshotId() {
        return log.latestSnapshotId();
    }

    public boolean isRunning() {
        return status != null && status.isRunning;
    }

    public boolean isShuttingDown() {
        return isRunning() && status.isShuttingDown;
    }

    QuorumState quorum() {
        return quorum;
    }

    public void handle(RaftRequest.Inbound request) {
        messageQueue.add(request);
    }

    /**
     * Lets the node do what is due, then gives it one message. What the node did between two polls is done to the log,
     * the network and the listeners here, as a client does nothing to them on the threads of its callers.
     */
    public void poll() {
        requireInitialized();
        isPolling = true;
        try {
            pollOnce();
        } finally {
            isPolling = false;
        }
    }

    private void pollOnce() {
        for (Runnable next = postponed.poll(); next != null; next = postponed.poll()) {
            next.run();
        }
        highWatermark = status.highWatermark;
        Optional<OffsetAndEpoch> earliest = log.earliestSnapshotId();
        // Most polls of a simulation come before anything is due.
        boolean isAsleep = time.milliseconds() < status.sleepsUntilMs;
        if (isRunning() && !isAsleep) {
            isTicking = true;
            ask(call(PykraftLink.POLL)
                .number(earliest.map(OffsetAndEpoch::offset).orElse((long) PykraftLink.NONE))
                .number(earliest.map(OffsetAndEpoch::epoch).orElse(PykraftLink.NONE))
            );
        }
        isTicking = false;
        if (!isRunning()) {
            tellListeners();
            return;
        }
        RaftMessage message = messageQueue.poll(status.timeoutMs.orElse(Long.MAX_VALUE));
        if (message instanceof RaftRequest.Inbound request) {
            receive(request);
        } else if (message instanceof RaftResponse.Inbound response) {
            receive(response);
        }
        for (Runnable next = registrations.poll(); next != null; next = registrations.poll()) {
            next.run();
        }
        tellListeners();
        updateMetrics();
    }

    /** At the end of a poll, since listeners call the client. Each call of the node names the listeners that have read. */
    private void tellListeners() {
        while (!callbacks.isEmpty() || status.hasMore && !released.isEmpty()) {
            for (Runnable next = callbacks.poll(); next != null; next = callbacks.poll()) {
                next.run();
            }
            if (status.hasMore && !released.isEmpty()) {
                ask(call(PykraftLink.RELEASE));
            }
        }
    }

    @Override
    public long prepareAppend(int epoch, List<T> records) {
        if (status == null) {
            throw new NotLeaderException("Append failed because the replica is not the current leader");
        }
        if (quorum.isLeader()) {
            allocateBuffer();
        }
        Frame frame = call(PykraftLink.PROPOSE).number(epoch);
        frame.list(records, each -> frame.bytes(serialize(each)));
        ask(frame);
        wakeupIfWanted();
        return status.result;
    }

    @Override
    public void schedulePreparedAppend() {
        if (status == null) {
            throw new NotLeaderException("Flush failed because the replica is not the current leader");
        }
        ask(call(PykraftLink.SCHEDULE));
        wakeupIfWanted();
    }

    @Override
    public CompletableFuture<Void> shutdown(int timeoutMs) {
        ask(call(PykraftLink.SHUTDOWN).number(timeoutMs));
        messageQueue.wakeup();
        return shutdown;
    }

    @Override
    public void resign(int epoch) {
        requireInitialized();
        try {
            ask(call(PykraftLink.RESIGN).number(epoch).flag(false));
        } catch (IllegalArgumentException e) {
            throw nodeId.isPresent() ? e : new IllegalStateException(e);
        }
        wakeupIfWanted();
    }

    private void resignAtOnce(int epoch) {
        ask(call(PykraftLink.RESIGN).number(epoch).flag(true));
    }

    @Override
    public Optional<SnapshotWriter<T>> createSnapshot(OffsetAndEpoch snapshotId, long lastContainedLogTime) {
        requireInitialized();
        try {
            ask(call(PykraftLink.SNAPSHOT).number(snapshotId.offset()).number(snapshotId.epoch()));
        } catch (IllegalArgumentException e) {
            // The node refused; the words that tests compare are those of the log.
            log.createNewSnapshot(snapshotId);
            throw e;
        }
        OptionalLong made = PykraftStatus.optional(status.result);
        return made.isEmpty() ? Optional.empty() : Optional.of(new Writer(snapshotId, (int) made.getAsLong()));
    }

    @Override
    public void upgradeKRaftVersion(int epoch, KRaftVersion version, boolean validateOnly) {
        requireInitialized();
        try {
            ask(call(PykraftLink.UPGRADE).number(epoch).number((int) version.featureLevel()).flag(validateOnly));
        } catch (IllegalArgumentException e) {
            throw new InvalidUpdateVersionException(e.getMessage());
        }
        wakeupIfWanted();
    }

    @Override
    public void close() {
        log.flush(true);
        if (status != null) {
            link.write(call(PykraftLink.CLOSE));
            mirror();
            metricNames.forEach(name -> metrics.removeMetric(metricName(name)));
            metricNames.clear();
        }
        if (memoryPool instanceof BatchMemoryPool pool) {
            pool.releaseRetained();
        }
    }

    // ---- Calls

    private void requireInitialized() {
        if (status == null) {
            throw new IllegalStateException("The replica must be initialized first");
        }
    }

    private Frame call(int code) {
        Frame frame = new Frame().code(code).number(number).number(time.milliseconds());
        frame.list(List.copyOf(released), frame::number);
        released.clear();
        return frame;
    }

    private void ask(Frame frame) {
        for (Integer gone = link.nextGone(); gone != null; gone = link.nextGone()) {
            link.write(new Frame().code(PykraftLink.CLOSE).number(gone).number(time.milliseconds()).number(0));
            mirror();
        }
        link.write(frame);
        status = new PykraftStatus(mirror(), status);
        quorum.updated();
        if (postponed.isEmpty() || status.highWatermark.isEmpty()) {
            highWatermark = status.highWatermark;
        }
        if (!quorum.isLeader()) {
            releaseBuffer();
        }
        if (problem != null) {
            Throwable found = problem;
            problem = null;
            rethrow(found);
        }
    }

    private void wakeupIfWanted() {
        if (status.wantsPoll || !postponed.isEmpty()) {
            messageQueue.wakeup();
        }
    }

    private static void rethrow(Throwable found) {
        if (found instanceof RuntimeException error) {
            throw error;
        }
        if (found instanceof Error error) {
            throw error;
        }
        throw new IllegalStateException(found);
    }

    /** Mirrors what the node does until the call ends. */
    private Values mirror() {
        while (true) {
            Values values = link.read();
            int code = values.code();
            switch (code) {
                case PykraftLink.DONE:
                    return values;
                case PykraftLink.FAILED:
                    throw failure(values.text(), values.text());
                case PykraftLink.DRAW:
                    link.write(new Frame().number(random.nextInt(values.number())));
                    break;
                case PykraftLink.ELECTION:
                case PykraftLink.ANSWER:
                case PykraftLink.KEEP_SNAPSHOT:
                    attempt(() -> mirror(code, values));
                    break;
                default:
                    if (isPolling && postponed.isEmpty() && (isTicking || code != PykraftLink.APPEND_AS_LEADER)) {
                        attempt(() -> mirror(code, values));
                    } else {
                        postponed.add(() -> mirror(code, values));
                    }
            }
        }
    }

    private void attempt(Runnable act) {
        try {
            act.run();
        } catch (RuntimeException | Error e) {
            problem = problem == null ? e : problem;
        }
    }

    private static RuntimeException failure(String kind, String text) {
        switch (kind) {
            case "NotLeaderError":
                return new NotLeaderException(text);
            case "BufferFullError":
                return new BufferAllocationException(text);
            case "RecordBatchTooLargeError":
                return new RecordBatchTooLargeException(text);
            case "UsageError":
            case "ConfigError":
                return new IllegalArgumentException(text);
            default:
                return new IllegalStateException(kind + ": " + text);
        }
    }

    private void mirror(int code, Values values) {
        switch (code) {
            case PykraftLink.APPEND:
                appendAsFollower(values.number(), MemoryRecords.readableRecords(values.bytes()));
                break;
            case PykraftLink.APPEND_AS_LEADER:
                appendAsLeader(values.number(), MemoryRecords.readableRecords(values.bytes()));
                break;
            case PykraftLink.FLUSH:
                log.flush(false);
                break;
            case PykraftLink.TRUNCATE:
                log.truncateTo(values.large());
                break;
            case PykraftLink.HIGH_WATERMARK:
                log.updateHighWatermark(new LogOffsetMetadata(values.large()));
                break;
            case PykraftLink.ELECTION:
                files.keepElection(values);
                break;
            case PykraftLink.KEEP_SNAPSHOT:
                files.keepSnapshot(new OffsetAndEpoch(values.large(), values.number()), values.bytes());
                break;
            case PykraftLink.TRUNCATE_TO_SNAPSHOT:
                log.truncateToLatestSnapshot();
                break;
            case PykraftLink.LOG_START:
                log.deleteBeforeSnapshot(new OffsetAndEpoch(values.large(), values.number()));
                break;
            case PykraftLink.SEND:
                send(values);
                break;
            case PykraftLink.ANSWER:
                answer(asked.remove(values.number()), values.bytes());
                break;
            case PykraftLink.COMMIT:
                callbacks.add(() ->
                    commit(values.number(), values.large(), MemoryRecords.readableRecords(values.bytes()))
                );
                break;
            case PykraftLink.LEADER:
                callbacks.add(() -> changeLeader(values.number(), values.number(), values.number()));
                break;
            case PykraftLink.LOAD:
                callbacks.add(() ->
                    load(values.number(), new OffsetAndEpoch(values.large(), values.number()), values.flag())
                );
                break;
            case PykraftLink.STOPPED:
                callbacks.add(() -> stopped(values.flag(), values.text()));
                break;
            default:
                throw new IllegalStateException("The node did what the shim does not know: " + code);
        }
    }

    // ---- The log and the files

    private void appendAsFollower(int epoch, MemoryRecords records) {
        log.appendAsFollower(records, epoch);
    }

    private void appendAsLeader(int epoch, MemoryRecords records) {
        for (RecordBatch ignored : records.batches()) {
            allocateBuffer();
            releaseBuffer();
        }
        log.appendAsLeader(records, epoch);
    }

    /** Java's client encodes each batch in a buffer of the pool; here only the pool sees it. */
    private void allocateBuffer() {
        if (batchBuffer == null) {
            batchBuffer = memoryPool.tryAllocate(MAX_BATCH_SIZE_BYTES);
            if (batchBuffer == null) {
                throw new BufferAllocationException("There is no memory for a batch");
            }
        }
    }

    private void releaseBuffer() {
        if (batchBuffer != null) {
            memoryPool.release(batchBuffer);
            batchBuffer = null;
        }
    }

    private void writeListeners(Frame frame) {
        List<AddRaftVoterRequestData.Listener> found = new ArrayList<>(localListeners.toAddVoterRequest());
        frame.list(found, each -> frame.text(each.name()).text(each.host()).number(each.port()));
    }

    private static void writeAddress(Frame frame, InetSocketAddress address) {
        frame.text(address.getHostString()).number(address.getPort());
    }

    private byte[] serialize(T value) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(serde.recordSize(value, cache));
        serde.write(value, cache, new ByteBufferAccessor(buffer));
        return buffer.array();
    }

    // ---- The network

    private void receive(RaftRequest.Inbound request) {
        ApiKeys api = ApiKeys.forId(request.data().apiKey());
        RequestHeader header = new RequestHeader(api, request.apiVersion(), CLIENT_ID, request.correlationId());
        ByteBuffer bytes = RequestUtils.serialize(
            header.data(), header.headerVersion(), request.data(), request.apiVersion()
        );
        int found = requests++;
        asked.put(found, request);
        ask(call(PykraftLink.REQUEST).number(found).text(request.listenerName().value()).bytes(bytes));
    }

    private void receive(RaftResponse.Inbound response) {
        Sent waiting = sent.remove(response.correlationId());
        ResponseHeader header = new ResponseHeader(
            waiting.correlationId, waiting.api.responseHeaderVersion(waiting.version)
        );
        ByteBuffer bytes = RequestUtils.serialize(
            header.data(), header.headerVersion(), response.data(), waiting.version
        );
        ask(call(PykraftLink.RESPONSE).number(waiting.connection).bytes(bytes));
    }

    private void send(Values values) {
        int connection = values.number();
        ApiKeys api = ApiKeys.forId(values.number());
        short version = (short) values.number();
        Sent waiting = new Sent(connection, api, version, values.number());
        Node destination = new Node(values.number(), values.text(), values.number());
        ApiMessage message = messages.read(ApiMessageType.fromApiKey(api.id).newRequest(), values.bytes(), version);
        int correlationId = channel.newCorrelationId();
        sent.put(correlationId, waiting);
        RaftRequest.Outbound request = new RaftRequest.Outbound(
            correlationId, message, destination, time.milliseconds()
        );
        request.completion.whenComplete((response, error) ->
            messageQueue.add(
                error == null
                    ? response
                    : new RaftResponse.Inbound(
                        correlationId, RaftUtil.errorResponse(api, Errors.forException(error)), destination
                    )
            )
        );
        channel.send(request);
    }

    private void answer(RaftRequest.Inbound request, ByteBuffer bytes) {
        ApiKeys api = ApiKeys.forId(request.data().apiKey());
        ResponseHeader.parse(bytes, api.responseHeaderVersion(request.apiVersion()));
        ApiMessage message = messages.read(
            ApiMessageType.fromApiKey(api.id).newResponse(), bytes, request.apiVersion()
        );
        request.completion.complete(new RaftResponse.Outbound(request.correlationId(), message));
    }

    // ---- Listeners

    private void commit(int listener, long baseOffset, MemoryRecords records) {
        listeners.get(listener).handleCommit(RecordsBatchReader.of(
            baseOffset,
            records,
            serde,
            BufferSupplier.create(),
            MAX_BATCH_SIZE_BYTES,
            reader -> {
                released.add(listener);
                messageQueue.wakeup();
            },
            true,
            logContext
        ));
    }

    private void changeLeader(int listener, int epoch, int leaderId) {
        listeners.get(listener).handleLeaderChange(new LeaderAndEpoch(PykraftStatus.optional(leaderId), epoch));
    }

    private void load(int listener, OffsetAndEpoch snapshotId, boolean isBootstrap) {
        RawSnapshotReader raw = log.readSnapshot(snapshotId).orElseThrow();
        RecordsSnapshotReader<T> reader = RecordsSnapshotReader.of(
            raw, serde, BufferSupplier.create(), MAX_BATCH_SIZE_BYTES, true, logContext
        );
        if (isBootstrap) {
            listeners.get(listener).handleLoadBootstrap(reader);
        } else {
            listeners.get(listener).handleLoadSnapshot(reader);
        }
    }

    private void stopped(boolean isGraceful, String error) {
        if (isGraceful) {
            shutdown.complete(null);
        } else {
            shutdown.completeExceptionally(new TimeoutException(error));
        }
    }

    // ---- Snapshots and metrics

    private MetricName metricName(String name) {
        return metrics.metricName(name, METRIC_GROUP);
    }

    private void updateMetrics() {
        if (status.ignoresStaticVoters) {
            externalMetrics.setIgnoredStaticVoters(true);
        }
        if (told == status.metrics) {
            return;
        }
        told = status.metrics;
        metricNames.forEach(name -> metrics.removeMetric(metricName(name)));
        metricNames.clear();
        metricNames.addAll(told);
        metricNames.add(IDLE_RATIO);
        metricNames.forEach(name ->
            metrics.addMetric(metricName(name), (Gauge<Object>) (config, nowMs) -> metricValue(name))
        );
    }

    private Object metricValue(String wanted) {
        link.write(call(PykraftLink.METRICS));
        Values values = mirror();
        Object found = null;
        for (int left = values.number(); left != 0; left--) {
            String name = values.text();
            Object value;
            switch (values.code()) {
                case 0:
                    value = values.text();
                    break;
                case 1:
                    value = (int) values.large();
                    break;
                case 2:
                    value = values.large();
                    break;
                default:
                    value = values.real();
            }
            found = name.equals(wanted) ? value : found;
        }
        return found;
    }

    /** A snapshot that the node writes; the test's log has it once it is frozen. */
    private final class Writer implements SnapshotWriter<T> {
        private final OffsetAndEpoch snapshotId;
        private final int made;
        private boolean isFrozen = false;

        private Writer(OffsetAndEpoch snapshotId, int made) {
            this.snapshotId = snapshotId;
            this.made = made;
        }

        @Override
        public OffsetAndEpoch snapshotId() {
            return snapshotId;
        }

        @Override
        public long lastContainedLogOffset() {
            return snapshotId.offset() - 1;
        }

        @Override
        public int lastContainedLogEpoch() {
            return snapshotId.epoch();
        }

        @Override
        public boolean isFrozen() {
            return isFrozen;
        }

        @Override
        public void append(List<T> records) {
            Frame frame = call(PykraftLink.SNAPSHOT_APPEND).number(made);
            frame.list(records, each -> frame.bytes(serialize(each)));
            ask(frame);
        }

        @Override
        public long freeze() {
            ask(call(PykraftLink.SNAPSHOT_FREEZE).number(made));
            isFrozen = true;
            return status.result;
        }

        @Override
        public void close() {
            if (!isFrozen) {
                ask(call(PykraftLink.SNAPSHOT_CLOSE).number(made));
            }
        }
    }
}
