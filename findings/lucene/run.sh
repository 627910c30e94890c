#!/bin/sh
# Crash-tests Lucene with one document a commit; the workload is in java/Lucene.java.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
java_env
crash_test -- java -Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$classes" Findings lucene
