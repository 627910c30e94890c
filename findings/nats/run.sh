#!/bin/sh
# Crash-tests JetStream of NATS; the workload is in go/nats.go. The argument is the variant: always
# syncs each message, default syncs every two minutes.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
go_build
case ${1:-always} in always) engine=nats ;; *) engine=nats-default ;; esac
crash_test -- "$go" $engine
