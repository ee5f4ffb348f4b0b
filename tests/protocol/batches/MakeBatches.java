import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;

/**
 * Made the files beside this one, with the jars of Kafka 4.3.1: one batch of the same forty records in each codec, with
 * keys, nulls, headers, times of their own and sequence numbers that wrap.
 *
 *     javac -cp 'JARS/*' MakeBatches.java && java -cp 'JARS/*:.' MakeBatches
 */
public class MakeBatches {
    public static void main(String[] arguments) throws Exception {
        SimpleRecord[] records = new SimpleRecord[40];
        for (int i = 0; i < records.length; i++) {
            byte[] key = i % 4 == 0 ? null : ("k" + i).getBytes();
            byte[] value = i % 11 == 0 ? null : new byte[i * 7];
            if (value != null)
                Arrays.fill(value, (byte) i);
            Header[] headers = i % 2 == 0
                ? new Header[0]
                : new Header[] {new RecordHeader("h" + i, ("x" + i).getBytes()), new RecordHeader("n", (byte[]) null)};
            records[i] = new SimpleRecord(1000000L + i * 3 - (i % 7) * 1000, key, value, headers);
        }
        for (CompressionType type : CompressionType.values()) {
            Compression codec = Compression.of(type).build();
            ByteBuffer batch = MemoryRecords.withIdempotentRecords(
                (byte) 2, 77L, codec, 5L, (short) 3, Integer.MAX_VALUE - 20, 9, records).buffer();
            byte[] bytes = new byte[batch.remaining()];
            batch.get(bytes);
            Files.write(Path.of(type.name + ".bin"), bytes);
        }
    }
}
