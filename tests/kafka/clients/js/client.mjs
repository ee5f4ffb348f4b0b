// KafkaJS, with the command line of tests/kafka/clients/program.py; the first word is the folder where it is installed.
//
//   node client.mjs FOLDER produce   --servers HOST:PORT,… --topic T --prefix P --count N
//   node client.mjs FOLDER consume   --servers … --topic T --offset O --count N
//   node client.mjs FOLDER subscribe --servers … --topic T --group G --session MS --count N
//   node client.mjs FOLDER describe  --servers … --topic T
//
// "produce" prints "prefix.number offset" for each acknowledged record, "consume" and "subscribe" print "offset value"
// for each record, and "describe" one JSON object. Status 0 means that every record was acknowledged, or read. KafkaJS
// knows no assignment: "consume" is the only member of a group of its own.

import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";

const [folder, mode, ...words] = process.argv.slice(2);
const { Kafka, CompressionTypes, logLevel } = createRequire(`${folder}/`)("kafkajs");
const text = { type: "string" };
const { values } = parseArgs({
  args: words,
  options: {
    servers: text, topic: text, group: text, session: text, prefix: text, compression: text, count: text, offset: text, rate: text,
    plain: { type: "boolean" },
  },
});
const topic = values.topic;
const count = Number(values.count ?? 0);
const retry = { retries: 1000, initialRetryTime: 50, maxRetryTime: 500 };
const kafka = new Kafka({ clientId: "clients", brokers: values.servers.split(","), retry, logLevel: logLevel.ERROR });
const STEP_MS = 20;

async function produce() {
  const rate = Number(values.rate ?? 0);
  const prefix = values.prefix ?? "0";
  const compression = values.compression === "gzip" ? CompressionTypes.GZIP : CompressionTypes.None;
  const producer = kafka.producer({ idempotent: !values.plain, maxInFlightRequests: 1 });
  await connect(producer);
  const started = performance.now();
  for (let done = 0; done < count; ) {
    const due = rate ? Math.floor(((performance.now() - started) / 1000) * rate) + 1 : count;
    const end = Math.min(count, due, done + 500);
    if (end <= done) {
      await pause(STEP_MS);
      continue;
    }
    const messages = [];
    for (let number = done; number < end; number++) {
      messages.push({ partition: 0, key: `key ${number}`, value: `${prefix}.${number}`, headers: { prefix } });
    }
    const [{ baseOffset }] = await producer.send({ topic, acks: -1, compression, messages });
    const lines = messages.map(({ value }, at) => `${value} ${BigInt(baseOffset) + BigInt(at)}\n`);
    process.stdout.write(lines.join(""));
    done = end;
  }
  await producer.disconnect();
}

// It asks for a producer's id once, of a node that may have just been killed, and leaves it to the program to try again.
async function connect(producer) {
  for (;;) {
    try {
      return await producer.connect();
    } catch (error) {
      if (!error.retriable) throw error;
      await pause(STEP_MS);
    }
  }
}

async function subscribe(group, offset) {
  const sessionTimeout = Number(values.session ?? 10000);
  const heartbeatInterval = sessionTimeout / 10;
  const consumer = kafka.consumer({ groupId: group, sessionTimeout, heartbeatInterval, maxWaitTimeInMs: 200 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  let read = 0;
  // A consumer that joins its group again begins at the committed offset: what it had read already comes once more.
  let next = offset === undefined ? -1 : Number(offset);
  await new Promise((done, fail) => {
    // It starts again by itself after some errors only.
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || fail(payload.error));
    const eachBatch = async ({ batch, resolveOffset, commitOffsetsIfNecessary, uncommittedOffsets }) => {
      for (const message of batch.messages) {
        if (read >= count) break;
        // Resolved even if it was read before: a batch of which nothing is resolved is fetched again, for ever.
        resolveOffset(message.offset);
        if (Number(message.offset) < next) continue;
        if (offset !== undefined) next = Number(message.offset) + 1;
        process.stdout.write(`${message.offset} ${message.value}\n`);
        read += 1;
      }
      await commitOffsetsIfNecessary(uncommittedOffsets());
      if (read === count) done();
    };
    consumer.run({ eachBatch, eachBatchAutoResolve: false }).catch(fail);
    if (offset !== undefined) consumer.seek({ topic, partition: 0, offset });
  });
  await consumer.disconnect();
}

async function describe() {
  const admin = kafka.admin();
  await admin.connect();
  const { clusterId, brokers } = await admin.describeCluster();
  const topics = await admin.listTopics();
  const metadata = await admin.fetchTopicMetadata({ topics: [topic] });
  const [{ low, high }] = await admin.fetchTopicOffsets(topic);
  const [ofTime] = await admin.fetchTopicOffsetsByTimestamp(topic, 1);
  await admin.disconnect();
  const found = {
    cluster_id: clusterId,
    nodes: brokers.map(({ nodeId }) => nodeId).sort(),
    leader: metadata.topics[0].partitions[0].leader,
    start_offset: Number(low),
    end_offset: Number(high),
    offset_of_time: Number(ofTime.offset),
    topics: topics.sort(),
  };
  process.stdout.write(`${JSON.stringify(found)}\n`);
}

const modes = {
  produce,
  consume: () => subscribe(randomUUID(), values.offset ?? "0"),
  subscribe: () => subscribe(values.group),
  describe,
};
await modes[mode]();
