#!/bin/bash
# user time per state
BIN=$1; N=${2:-40000}
while read -r f; do
 /usr/bin/env bash -c "TIMEFORMAT=%U; time $BIN prove --json --states $N $f > /tmp/prov_tmp/o.json" 2>/tmp/prov_tmp/t.txt
 python3 - "$f" <<P
import json,sys
r=json.load(open('/tmp/prov_tmp/o.json')); t=float(open('/tmp/prov_tmp/t.txt').read().split()[-1])
print(f"{sys.argv[1]:45s} {r['states']:7d} states {r['cases']:4d} cases {t:6.2f}s user {r['states']/t:8.0f}/s v={r['violations']}")
P
done < <($BIN prove --list)
