#!/bin/sh
# Crash-tests the file queue of Tape; the workload is in java/Tape.java.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
java_env
crash_test -- java -Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$classes" Findings tape
