#!/bin/sh
# Crash-tests HSQLDB with one row a transaction and a sync a commit; the workload is in java/Sql.java.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
java_env
crash_test -- java -Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$classes" Findings hsqldb
