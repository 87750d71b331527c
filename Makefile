# make, make install, make installcheck: as with any PGXS extension, PG_CONFIG= names the server.
# make demo, make check: a demonstration and every test, on a fresh Debian machine too (see README.md). make lint: the rules
# of the sources, for what has changed; ALL=1: for everything. make docs-check: the examples and links of README and docs/.
# make docs: the table of functions in docs/reference.md, after a change of their comments or of who calls them.
# make site: the documentation as a site of static pages.
# make matrix: make check for each version of PostgreSQL that Debian has; make check PG=17: for one. make warnings: compiles with
# each compiler there is, also for arm64; warnings are errors. make pg-upgrade: pg_upgrade between versions, with jobs in every
# state.
# make memcheck: tests on a server with assertions, with discarded caches, under valgrind, with sanitizers.
# make web: the tests of the dashboard, in a browser; BENCH=1: how long its pages take beside ten million jobs.
# make fuzz: the attackers of test/fuzz at length.
# make clients: the workers of clients/, each against the same scenarios.
# make bench: the benchmark (see docs/benchmarks.md). make profile: what a call costs in instructions, by callgrind
# (CACHE=1: in lines of memory that it brings into the caches of a core).
# make chaos, make ddl, make failover: load, and faults of every kind, a DBA at work or standbys that are promoted (see
# test/chaos/README.md).
# make cluster: shards and routers under load while they are killed, promoted, added and drained (see test/cluster/README.md).
# make deb: the Debian package (PG=17: in a directory with the release that has it; TEST=1: and its tests in a clean one).
# make dist: the zip for PGXN, and what becomes of it.
# make upgrade: ALTER EXTENSION jobq UPDATE from every release, old and new libraries (see test/upgrade/README.md).
# make monitoring: what monitoring/ has for Prometheus and Grafana, with Debian's Prometheus and exporters.
# make release VERSION=1.0.0: freezes the install script, commits and tags (see CONTRIBUTING.md).

script_goals = demo check clients web monitoring docs-check matrix warnings memcheck lint fuzz bench profile setup chaos ddl failover cluster deb dist site pg-upgrade upgrade release
ifneq (,$(filter $(script_goals),$(MAKECMDGOALS)))

# These install what is missing, PostgreSQL included, and call make again for the build.
.PHONY: $(MAKECMDGOALS)
.NOTPARALLEL:
setup:
	@scripts/setup.sh check
demo:
	@scripts/demo.sh
check:
	@$(if $(PG),scripts/matrix.sh one,scripts/check.sh)
matrix warnings:
	@scripts/$@.sh
pg-upgrade:
	@scripts/pg_upgrade.sh
docs-check:
	@SUITE=docs scripts/check.sh
upgrade:
	@SUITE=upgrade scripts/check.sh
monitoring:
	@SUITE=monitoring scripts/check.sh
release:
	@scripts/release.sh $(VERSION)
memcheck:
	@scripts/memcheck.sh
lint:
	@scripts/lint.sh
fuzz web clients profile:
	@scripts/$@.sh
bench:
	@bench/run.sh
deb dist site:
	@scripts/$@.sh
chaos ddl failover:
	@scripts/chaos.sh $@
cluster:
	@scripts/cluster.sh
$(filter-out $(script_goals),$(MAKECMDGOALS)):
	@$(MAKE) $@

else

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq (,$(wildcard $(PGXS)))
$(error $(PG_CONFIG) or the PGXS makefile it names is missing: \
	install postgresql-server-dev-15 (or what `make setup` installs), or set PG_CONFIG)
endif

# Beside it what a cluster needs: jobq_shard on each of its servers, jobq_router in front of them. SQL only.
EXTENSION = jobq jobq_shard jobq_router
version := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" jobq.control)

# What is compiled for one server is of no use to another. The library stands at the top, for whom it was made last.
server := $(shell $(PG_CONFIG) --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
objects = build/$(server)
objects_of = $(patsubst src/%.cpp,$(objects)/%.o,$(sort $(wildcard $(1))))

MODULE_big = jobq
# What decides, without a server.
policies := $(call objects_of,src/core/*.cpp src/*/*_policy.cpp)
OBJS = $(policies) $(filter-out $(policies),$(call objects_of,src/*/*.cpp))
SHLIB_EXPORTS = build/exports.txt
# What was released stays installable, and the ways up from it; docs: CONTRIBUTING.md, "Releases".
DATA = $(filter-out %--$(version).sql,$(sort $(wildcard src/sql/releases/jobq*--*.sql))) $(sort $(wildcard src/sql/upgrades/jobq*--*.sql))
DATA_built = jobq--$(version).sql jobq_shard--$(version).sql jobq_router--$(version).sql
REGRESS = $(sort $(patsubst sql/%.sql,%,$(wildcard sql/*.sql)))
ISOLATION = $(sort $(patsubst test/isolation/specs/%.spec,%,$(wildcard test/isolation/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test/isolation --load-extension=jobq
EXTRA_CLEAN = META.json build/exports.txt build/server $(objects)

# As system headers, the server's own are exempt from our warnings.
PG_CPPFLAGS = -isystem $(includedir_server) -Isrc
PG_CXXFLAGS = -std=c++17 -Wall -Wextra -fvisibility-inlines-hidden -MMD -MP $(COPT)

# PGXS would link with the C compiler, and its bitcode step knows neither C++17 nor our flags.
override COMPILER = $(CXX) $(CXXFLAGS)
override with_llvm = no
include $(PGXS)

$(policies): override CPPFLAGS += -DJOBQ_CORE_ONLY
$(objects)/compat/library_version.o: override CPPFLAGS += -DJOBQ_VERSION='"$(version)"'
$(objects)/compat/library_version.o: jobq.control
-include $(OBJS:.o=.d)
$(objects)/%.o: src/%.cpp
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) $(CPPFLAGS) -c -o $@ $<

$(shlib): build/server
.PHONY: FORCE
build/server: FORCE
	@mkdir -p build; echo $(server) | cmp -s - $@ || echo $(server) >$@

jobq--$(version).sql: $(wildcard src/sql/*.sql src/core/*.h) scripts/install_script.sh scripts/install_script.awk jobq.control
	sh scripts/install_script.sh > $@.new
	mv $@.new $@

jobq_shard--$(version).sql: $(wildcard src/sql/shard/*.sql src/sql/router/bucket_of.part) scripts/cluster_script.sh scripts/cluster_script.awk jobq.control
	sh scripts/cluster_script.sh shard > $@.new
	mv $@.new $@

jobq_router--$(version).sql: jobq--$(version).sql $(wildcard src/sql/router/*) scripts/cluster_script.sh scripts/cluster_script.awk
	sh scripts/cluster_script.sh router $< > $@.new
	mv $@.new $@

# A released script stays, and so do the symbols that it names.
build/exports.txt: jobq--$(version).sql $(foreach file,$(DATA),$(if $(findstring /jobq--,$(file)),$(file))) scripts/exports.sh
	@mkdir -p build
	bash scripts/exports.sh $(filter %.sql,$^) > $@.new
	mv $@.new $@

all: META.json
META.json: META.json.in jobq.control
	sed 's/@VERSION@/$(version)/g' $< > $@

# What the reference says of functions by itself.
.PHONY: docs check-reference
docs check-reference: jobq--$(version).sql
	@scripts/reference.sh $(if $(filter check-reference,$@),--check) $<

# The linker passes over a symbol that the library has not.
.PHONY: check-exports
check-exports: $(shlib)
	@bash scripts/exports.sh --check $(SHLIB_EXPORTS) $(shlib)

endif
