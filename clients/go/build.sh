#!/bin/sh
# For make clients: builds the worker of the scenarios, or runs the tests with the argument "test". Uses Debian's pgx instead of the
# network. Some of its dependencies have no go.mod there, so this module is built in a GOPATH instead of in module mode.
set -eu
cd "$(dirname "$0")"
gopath=$(mktemp -d)
trap 'rm -rf "$gopath"' EXIT
mkdir "$gopath/src"
ln -s "$PWD" "$gopath/src/jobq"
export GO111MODULE=off GOPATH="$gopath:/usr/share/gocode" GOFLAGS=-buildvcs=false
if [ "${1-}" = test ]; then
    go vet jobq jobq/scenario
    go test -race jobq
else
    go build -o worker jobq/scenario
fi
