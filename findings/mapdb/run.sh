#!/bin/sh
# Crash-tests MapDB with its log and one row a commit; the workload is in java/MapDb.java.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
java_env
crash_test -- java -Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$classes" Findings mapdb
