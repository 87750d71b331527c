#!/bin/bash
# Installs the peers of the benchmark from npm into build/bench: a recent enough Node, graphile-worker, pg-boss, BullMQ, amqplib,
# and the driver. Takes the newest release that the registry can install. Called by scripts/setup.sh bench. Does nothing if
# everything is installed. Delete build/bench to get newer releases.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=build/bench
modules=$target/node_modules
log=$target/npm.log

have() { [ -e "$modules/$1/package.json" ]; }
if have pg && have graphile-worker && have pg-boss && have bullmq && have ioredis && have amqplib && [ -e "$target/complete" ]; then exit 0; fi

mkdir -p "$target"
# npm writes to the home directory of the user. A separate home keeps it unchanged.
install() { npm install --silent --no-audit --no-fund --no-package-lock --prefix "$target" "$@" >>"$log" 2>&1; }
: >"$log"

echo "setup: installing graphile-worker, pg-boss, BullMQ, amqplib and the node they need with npm into $target"
major() { node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/'; }
if [ "$(major || true)" -lt 22 ] 2>/dev/null || ! command -v node >/dev/null; then
    install node@22 || echo "setup: node 22 does not install, staying with $(node --version)"
    # If npm runs no installation scripts, the package that contains the program must be named.
    [ -x "$modules/node/bin/node" ] || install "node-linux-$(node -p process.arch)@22" || true
    for bin in "$modules/node/bin" "$modules/node-linux-$(node -p process.arch)/bin"; do
        if [ -x "$bin/node" ]; then PATH=$PWD/$bin:$PATH; break; fi
    done
fi
command -v node >"$target/node_path"
install pg@8 || { cat "$log" >&2; exit 1; }

# Installs the newest release. If the registry lacks one of its dependencies, installs the newest earlier release that works.
install_newest() {
    local package=$1 release
    for release in $(npm view "$package" versions --json 2>/dev/null |
        node -e 'const all = [].concat(JSON.parse(require("fs").readFileSync(0)));
                 console.log(all.filter((v) => /^[0-9.]+$/.test(v)).slice(-8).reverse().join("\n"))'); do
        if install "$package@$release"; then
            echo "setup: $package $release"
            return 0
        fi
    done
    echo "setup: $package does not install; the benchmark runs without it" >&2
}
install_newest graphile-worker
install_newest pg-boss
install ioredis@5 && install_newest bullmq
install_newest amqplib
touch "$target/complete"
