#!/bin/sh
# Crash-tests Berkeley DB Java Edition with synchronous commits; the workload is in java/BerkeleyJe.java.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
java_env
crash_test -- java -Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$classes" Findings je
