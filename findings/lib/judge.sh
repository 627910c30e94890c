#!/bin/sh
# Runs a check and tells a database that crashes its reader from a check that cannot run: death by a
# signal becomes exit code 3. Exit codes 126 and 127 stay.
"$@"
code=$?
if [ "$code" -gt 128 ]; then
    echo "damaged: the program that opens it dies of signal $((code - 128))"
    exit 3
fi
exit "$code"
