#!/bin/sh
# Compiles the Java workloads, MapDB among them; java/pom.xml pins its version.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
java_env
