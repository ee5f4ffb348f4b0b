#!/bin/sh
# Kafka's own measurement of a producer; --help tells its options.
exec "$(dirname "$(readlink -f "$0")")/kafka-run-class.sh" org.apache.kafka.tools.ProducerPerformance "$@"
