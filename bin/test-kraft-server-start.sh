#!/bin/sh
# Kafka's standalone KRaft server: test-kraft-server-start.sh [-daemon] --config FILE [OPTIONS]; --help tells them.
exec "$(dirname "$(readlink -f "$0")")/_standalone" "${0##*/}" "$@"
