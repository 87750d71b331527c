#!/bin/bash
# make tarball: makes build/jobq-VERSION-pgMAJOR-SYSTEM-MACHINE.tar.gz, for operators that mount or unpack archives instead of
# packages: lib/ and share/extension/ for the server of PG_CONFIG, with checksums. Then unpacks the archive into a copy of the
# server's tree, and creates the extensions there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
scripts/setup.sh build
find_pg_config

make -s -j"$(nproc)" all >build/build.log 2>&1 || { cat build/build.log >&2; exit 1; }
scratch_begin tarball
major=$("$PG_CONFIG" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
version=$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" jobq.control)
name=jobq-$version-pg$major-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)
files=$SCRATCH/$name
make -s PG_CONFIG="$PG_CONFIG" install DESTDIR="$files" datadir=/share pkglibdir=/lib >build/build.log 2>&1 || { cat build/build.log >&2; exit 1; }
strip --strip-unneeded "$files/lib/jobq.so"
cp LICENSE "$files/"
(cd "$files" && find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum >"$SCRATCH/sums" && mv "$SCRATCH/sums" SHA256SUMS)
# The same files make the same archive.
tar -C "$SCRATCH" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}" -cf - "$name" |
    gzip -n >"build/$name.tar.gz"
(cd build && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")

scratch_tree
lib=$("$SCRATCH_PG_CONFIG" --pkglibdir) share=$("$SCRATCH_PG_CONFIG" --sharedir)
rm -r "$lib/jobq.so" "$share"/extension/jobq*
mkdir "$SCRATCH/unpacked"
(cd build && sha256sum --quiet -c "$name.tar.gz.sha256")
tar -C "$SCRATCH/unpacked" -xzf "build/$name.tar.gz"
(cd "$SCRATCH/unpacked/$name" && sha256sum --quiet -c SHA256SUMS)
cp "$SCRATCH/unpacked/$name/lib/jobq.so" "$lib/"
cp "$SCRATCH/unpacked/$name"/share/extension/* "$share/extension/"
scratch_server tarball "shared_preload_libraries = 'jobq'"
psql=("$SCRATCH_BIN/psql" -XqAt -v ON_ERROR_STOP=1 -c)
"${psql[@]}" 'CREATE EXTENSION jobq; CREATE EXTENSION jobq_shard;'
[ "$("${psql[@]}" "SELECT jobq_enqueue('q') > 0 AND jobq_version() = '$version'")" = t ]
echo "$(($(stat -c %s "build/$name.tar.gz") / 1024)) kB, $(wc -l <"$files/SHA256SUMS") files: build/$name.tar.gz"
