#!/bin/sh
# Crash-tests Xodus with durable writes; the workload is in java/Xodus.java.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
java_env
crash_test -- java -Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$classes" Findings xodus
