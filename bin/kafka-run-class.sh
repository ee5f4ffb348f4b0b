#!/bin/sh
# Runs a class of Kafka's own, as Kafka's script of this name: kafka-run-class.sh CLASS [OPTIONS]
#
# The jars are those of KAFKA_HOME, if that is set; else those of Kafka 4.3.1, which are fetched once with Maven. The
# environment: JAVA_HOME, KAFKA_HEAP_OPTS (default -Xmx256M), KAFKA_OPTS.
set -eu
if [ $# -eq 0 ]; then
    echo "usage: ${0##*/} CLASS [OPTIONS], for example org.apache.kafka.tools.VerifiableProducer --help" >&2
    exit 1
fi
root=$(dirname "$(dirname "$(readlink -f "$0")")")
if [ -n "${KAFKA_HOME:-}" ]; then
    jars=$KAFKA_HOME/libs
    [ -d "$jars" ] || { echo "${0##*/}: KAFKA_HOME is $KAFKA_HOME, and there is no $jars" >&2; exit 1; }
else
    python=$("$root/bin/_environment" run) || exit 1
    jars=$("$python" -P -m lab.kafka.jars) || exit 1
fi
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
command -v "$java" >/dev/null || { echo "${0##*/}: no $java; Kafka needs Java 17 or later" >&2; exit 1; }
# shellcheck disable=SC2086 # options, as in Kafka's scripts
exec "$java" ${KAFKA_HEAP_OPTS:--Xmx256M} ${KAFKA_OPTS:-} \
    "-Dlog4j2.configurationFile=$root/lab/kafka/log4j2.properties" -Dpykraft.log.level=WARN \
    -cp "$jars/*" "$@"
