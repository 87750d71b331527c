#!/bin/bash
# make rpm: builds the package of rpm/jobq.spec from the committed files for the server of PG_CONFIG, checks it with rpmlint, and
# checks that it installs the same files as the Debian package for the same version, if `make deb` has built the Debian package.
# The packages are left in build/rpm. On Debian, this tests the spec: dependencies have other names there and are not checked.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
scripts/setup.sh rpm
find_pg_config
# The checkout may belong to another user.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$PWD

major=$("$PG_CONFIG" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
version=$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" jobq.control)
top=$PWD/build/rpm
rm -rf "$top"
mkdir -p "$top/SOURCES"
git archive --prefix="jobq-$version/" -o "$top/SOURCES/jobq-$version.tar.gz" HEAD
defines=(--define "_topdir $top" --define "pgmajorversion $major" --define "pg_config $PG_CONFIG"
    --define "pglibdir $("$PG_CONFIG" --pkglibdir)" --define "pgextensiondir $("$PG_CONFIG" --sharedir)/extension")
# A system with rpm's own database knows which packages are installed.
[ -z "$(rpm -qa 2>/dev/null)" ] && defines+=(--nodeps)
rpmbuild -ba "${defines[@]}" rpm/jobq.spec >"$top/build.log" 2>&1 || { tail -n 40 "$top/build.log" >&2; exit 1; }
package=$(echo "$top"/RPMS/*/jobq_"$major"-"$version"-*.rpm)
rpmlint --config rpm/rpmlint.toml rpm/jobq.spec "$package"

below_server() { grep -E "^($("$PG_CONFIG" --pkglibdir)|$("$PG_CONFIG" --sharedir))/" | grep -v '/$' | LC_ALL=C sort; }
deb=$(echo build/deb/postgresql-"$major"-jobq_"$version"-*.deb)
if [[ $deb != *\** ]]; then
    [ -e "$deb" ] || { echo "rpm: several packages of this version: $deb" >&2; exit 1; }
    diff <(dpkg-deb --fsys-tarfile "$deb" | tar -tf - | sed 's/^\.//' | below_server) <(rpm -qlp "$package" 2>/dev/null | below_server) ||
        { echo "rpm: $deb and $package install different files" >&2; exit 1; }
    echo "installs the same files as $deb"
fi
echo "${package#"$PWD/"}"
