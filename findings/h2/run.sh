#!/bin/sh
# Crash-tests H2 with one row a transaction; the workload is in java/Sql.java. The argument is the
# variant: default, or sync with CHECKPOINT SYNC after each row.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
java_env
case ${1:-default} in sync) engine=h2-sync ;; *) engine=h2 ;; esac
crash_test -- java -Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$classes" Findings "$engine"
