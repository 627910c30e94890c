#!/bin/sh
# Crash-tests the Java port of LevelDB with synchronous writes; the workload is in java/Iq80.java.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
java_env
crash_test -- java -Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$classes" Findings iq80
