package org.apache.kafka.raft;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.lang.ref.Cleaner;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;

/** The connection to the Python process that runs all clients of this JVM; one call at a time, in frames. */
final class PykraftLink {
    static final int NONE = -1;

    static final int OPEN = 1;
    static final int POLL = 2;
    static final int REQUEST = 3;
    static final int RESPONSE = 4;
    static final int REGISTER = 5;
    static final int UNREGISTER = 6;
    static final int RELEASE = 7;
    static final int PROPOSE = 8;
    static final int SCHEDULE = 9;
    static final int RESIGN = 10;
    static final int SHUTDOWN = 11;
    static final int UPGRADE = 12;
    static final int SNAPSHOT = 13;
    static final int SNAPSHOT_APPEND = 14;
    static final int SNAPSHOT_FREEZE = 15;
    static final int SNAPSHOT_CLOSE = 16;
    static final int METRICS = 17;
    static final int CLOSE = 18;

    static final int DONE = 0;
    static final int FAILED = 1;
    static final int DRAW = 2;
    static final int APPEND = 3;
    static final int FLUSH = 4;
    static final int TRUNCATE = 5;
    static final int HIGH_WATERMARK = 6;
    static final int ELECTION = 7;
    static final int KEEP_SNAPSHOT = 8;
    static final int TRUNCATE_TO_SNAPSHOT = 9;
    static final int LOG_START = 10;
    static final int SEND = 11;
    static final int ANSWER = 12;
    static final int COMMIT = 13;
    static final int LEADER = 14;
    static final int LOAD = 15;
    static final int STOPPED = 16;
    static final int APPEND_AS_LEADER = 17;

    private static final Cleaner CLEANER = Cleaner.create();
    private static PykraftLink shared;

    private final DataInputStream in;
    private final DataOutputStream out;
    private final Queue<Integer> gone = new ConcurrentLinkedQueue<>();
    private int clients = 0;

    private PykraftLink(SocketChannel channel) {
        this.in = new DataInputStream(new java.io.BufferedInputStream(Channels.newInputStream(channel)));
        this.out = new DataOutputStream(Channels.newOutputStream(channel));
    }

    /** The one link of this JVM, to the socket that the system property names. */
    static synchronized PykraftLink shared() {
        if (shared == null) {
            try {
                SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
                channel.connect(UnixDomainSocketAddress.of(System.getProperty("pykraft.socket")));
                shared = new PykraftLink(channel);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        return shared;
    }

    /** The number of a new client; when nobody holds it any more, its node ends. */
    int newClient(Object client) {
        int number = clients++;
        Queue<Integer> to = gone;
        CLEANER.register(client, () -> to.add(number));
        return number;
    }

    /** The number of a client that nobody holds any more; null without one. */
    Integer nextGone() {
        return gone.poll();
    }

    void write(Frame frame) {
        try {
            byte[] body = frame.bytes.toByteArray();
            ByteArrayOutputStream whole = new ByteArrayOutputStream();
            DataOutputStream framed = new DataOutputStream(whole);
            framed.writeInt(body.length);
            framed.write(body);
            out.write(whole.toByteArray());
            out.flush();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    Values read() {
        try {
            byte[] body = new byte[in.readInt()];
            in.readFully(body);
            return new Values(body);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Writes the values of one frame. */
    static final class Frame {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private final DataOutputStream out = new DataOutputStream(bytes);

        Frame flag(boolean value) {
            return write(o -> o.writeByte(value ? 1 : 0));
        }

        Frame code(int value) {
            return write(o -> o.writeByte(value));
        }

        Frame number(int value) {
            return write(o -> o.writeInt(value));
        }

        Frame number(long value) {
            return write(o -> o.writeLong(value));
        }

        Frame bytes(byte[] value) {
            return number(value.length).write(o -> o.write(value));
        }

        Frame bytes(ByteBuffer value) {
            byte[] found = new byte[value.remaining()];
            value.duplicate().get(found);
            return bytes(found);
        }

        Frame text(String value) {
            return bytes(value.getBytes(StandardCharsets.UTF_8));
        }

        <E> Frame list(List<E> values, Consumer<E> each) {
            number(values.size());
            values.forEach(each);
            return this;
        }

        private Frame write(Write act) {
            try {
                act.to(out);
                return this;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private interface Write {
            void to(DataOutputStream out) throws IOException;
        }
    }

    /** Reads the values of one frame, in order. */
    static final class Values {
        private final ByteBuffer buffer;

        Values(byte[] body) {
            this.buffer = ByteBuffer.wrap(body);
        }

        int code() {
            return buffer.get();
        }

        boolean flag() {
            return buffer.get() != 0;
        }

        int number() {
            return buffer.getInt();
        }

        long large() {
            return buffer.getLong();
        }

        double real() {
            return buffer.getDouble();
        }

        ByteBuffer bytes() {
            byte[] found = new byte[buffer.getInt()];
            buffer.get(found);
            return ByteBuffer.wrap(found);
        }

        String text() {
            return StandardCharsets.UTF_8.decode(bytes()).toString();
        }
    }
}
