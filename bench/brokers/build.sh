#!/bin/bash
# Compiles the clients of the brokers into build/bench/broker_load, unless this file is newer than its sources. Called by run.sh
# with PG_CONFIG. Without hiredis or libpq, it builds nothing, and the group "brokers" reports this.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=build/bench/broker_load
mkdir -p build/bench
if [ -x "$target" ] && [ -z "$(find bench/brokers -newer "$target" -type f)" ]; then exit 0; fi
rm -f "$target"
g++ -std=c++17 -O2 -Wall -Wextra -pthread -I"$("$PG_CONFIG" --includedir)" bench/brokers/*.cpp -o "$target" \
    -L"$("$PG_CONFIG" --libdir)" -lhiredis -lpq >build/bench/broker_load.log 2>&1 ||
    { echo "bench: build/bench/broker_load.log says why the brokers' client does not compile" >&2; rm -f "$target"; }
