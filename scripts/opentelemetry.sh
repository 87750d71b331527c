#!/bin/bash
# Installs OpenTelemetry's API and SDK for Python into build/opentelemetry, for the tests of spans, if this release of Debian has
# no package of them. Unpacks the packages of Debian's sid, which contain no code for a particular architecture, and uses them
# with the Python of this release. Does nothing if the files exist.
# JOBQ_MIRROR: Debian's archive (http://deb.debian.org/debian)
set -euo pipefail
cd "$(dirname "$0")/.."
target=build/opentelemetry
[ ! -d $target ] || exit 0
echo "setup: taking OpenTelemetry for Python from Debian's sid into $target"
mkdir -p build
work=$(mktemp -d "$PWD/build/opentelemetry.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$key] ${JOBQ_MIRROR:-http://deb.debian.org/debian} sid main" >"$work/sources.list"
of_sid() {
    apt-get -q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/lists" \
        -o Dir::Cache="$work/cache" -o Acquire::Languages=none -o APT::Sandbox::User= -o APT::Update::Error-Mode=any "$@"
}
if ! (cd "$work" && of_sid update && of_sid download python3-opentelemetry-{api,sdk,semantic-conventions} python3-typing-extensions) \
    >"$work/log" 2>&1; then
    cat "$work/log" >&2
    echo "setup: cannot download sid's packages of OpenTelemetry; set JOBQ_MIRROR to another mirror of Debian" >&2
    exit 1
fi
for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/taken"; done
PYTHONPATH=$work/taken/usr/lib/python3/dist-packages /usr/bin/python3 -c 'import opentelemetry.sdk.trace'
mv "$work/taken" $target
