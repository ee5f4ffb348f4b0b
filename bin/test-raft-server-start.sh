#!/bin/sh
# Kafka's standalone Raft server as it was called in 2020: test-raft-server-start.sh [-daemon] FILE [OPTIONS].
exec "$(dirname "$(readlink -f "$0")")/_standalone" "${0##*/}" "$@"
