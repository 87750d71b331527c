#!/bin/sh
# For make clients: builds the worker of the scenarios, or runs the tests with the argument "test". Uses Debian's crates instead of crates
# from the network.
set -eu
cd "$(dirname "$0")"
export CARGO_HOME="$PWD/cargo"
debian="--offline --config source.crates-io.replace-with='debian' --config source.debian.directory='/usr/share/cargo/registry'"
if [ "${1-}" = test ]; then
    # shellcheck disable=SC2086
    exec cargo test $debian
fi
# shellcheck disable=SC2086
cargo build $debian --example scenario
cp target/debug/examples/scenario worker
