# `make help` lists the targets. As with any PGXS extension, PG_CONFIG names the pg_config of the server to build for.

script_goals = help demo check clients web monitoring docs-check matrix warnings memcheck lint fuzz bench profile setup chaos ddl failover soak cluster deb rpm dist tarball site pg-upgrade upgrade release
ifneq (,$(filter $(script_goals),$(MAKECMDGOALS)))

# These targets call scripts, which install what is missing, PostgreSQL included, and run make again to build. The text after
# `##` is what `make help` prints.
.PHONY: $(MAKECMDGOALS)
.NOTPARALLEL:

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' Makefile
demo: ## Run a demonstration on a temporary server
	@scripts/demo.sh
setup: ## Install the packages needed to build and test, with apt
	@scripts/setup.sh check

check: ## Run all test suites; SUITE="regress process": only these, SUITE=controls: the planted defects, PG=17: on PostgreSQL 17
	@$(if $(PG),scripts/matrix.sh one,scripts/check.sh)
docs-check: ## Run the examples and check the links of README and docs
	@SUITE=docs scripts/check.sh
lint: ## Check the style and structure rules of the sources that have changed; ALL=1: of all sources
	@scripts/lint.sh
fuzz: ## Attack every function with random and hostile input, at full length
web: ## Test the dashboard in Chromium; BENCH=1: time its pages with ten million jobs
clients: ## Run the scenarios against the workers of clients in all languages; CLIENT="go node": these languages
profile: ## Count the instructions of each call with callgrind; CACHE=1: the cache lines
fuzz web clients profile:
	@scripts/$@.sh
chaos: ## Kill processes, servers, and clients under load, and fill the disk
ddl: ## Run DDL and maintenance under load
failover: ## Promote standbys under load
chaos ddl failover:
	@scripts/chaos.sh $@
soak: ## Repeat a day of load for 45 minutes and look for trends of sizes, memory, and times; SHORT=1: 3 minutes, MINUTES=120
	@scripts/soak.sh
cluster: ## Kill, promote, add, and drain shards and routers under load
	@router/scripts/cluster.sh
monitoring: ## Test the files of monitoring with Prometheus and the exporters of Debian
	@SUITE=monitoring scripts/check.sh
memcheck: ## Run tests with assertions, without caches, under valgrind, and with sanitizers; STEP="assert asan": these steps
	@scripts/memcheck.sh
matrix: ## Run all suites on PostgreSQL 15, 17, and 18; SHORT=1: the most important suites on 17 and 18
warnings: ## Compile with every gcc and clang of each Debian release, and for arm64; warnings are errors
matrix warnings:
	@scripts/$@.sh
upgrade: ## Test ALTER EXTENSION jobq UPDATE from every release, and old libraries with new SQL
	@SUITE=upgrade scripts/check.sh
pg-upgrade: ## Test pg_upgrade between major versions, with jobs in every state
	@scripts/pg_upgrade.sh
bench: ## Run all benchmarks; QUICK=1: the main figures, ONLY="lifecycle batches": these groups
	@bench/run.sh

deb: ## Build the Debian package; PG=17: for PostgreSQL 17, TEST=1: also test it
rpm: ## Build the RPM package, and compare it with the Debian package
dist: ## Build the archive for PGXN, and test it; also write the bill of materials, and the row for catalogs of extensions
tarball: ## Build an archive of the installed files for one version of PostgreSQL, and test it
site: ## Build the documentation as a static website, and test it in Chromium
deb rpm dist tarball site:
	@scripts/$@.sh
release: ## Freeze the install script, commit, and tag VERSION=1.0.0
	@scripts/release.sh $(VERSION)

# Other targets that are named on the same command line.
$(filter-out $(script_goals),$(MAKECMDGOALS)):
	@$(MAKE) $@

else

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq (,$(wildcard $(PGXS)))
$(error $(PG_CONFIG) or the PGXS makefile it names is missing: \
	install postgresql-server-dev-15 (or what `make setup` installs), or set PG_CONFIG)
endif

EXTENSION = jobq
version := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" jobq.control)

# Each major version has its own directory of object files. The library in the top directory is the one that was linked last.
server := $(shell $(PG_CONFIG) --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
objects = build/$(server)
objects_of = $(patsubst src/%.cpp,$(objects)/%.o,$(sort $(wildcard $(1))))

MODULE_big = jobq
# The policies, which need no server.
policies := $(call objects_of,src/core/*.cpp src/*/*_policy.cpp)
OBJS = $(policies) $(filter-out $(policies),$(call objects_of,src/*/*.cpp))
SHLIB_EXPORTS = build/exports.txt
# Released install scripts and upgrade scripts stay installable (CONTRIBUTING.md, "Releases").
DATA = $(filter-out %--$(version).sql,$(sort $(wildcard src/sql/releases/jobq--*.sql))) $(sort $(wildcard src/sql/upgrades/jobq--*.sql))
DATA_built = jobq--$(version).sql
REGRESS = $(sort $(patsubst sql/%.sql,%,$(wildcard sql/*.sql)))
ISOLATION = $(sort $(patsubst test/isolation/specs/%.spec,%,$(wildcard test/isolation/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test/isolation --load-extension=jobq
EXTRA_CLEAN = META.json build/exports.txt build/server $(objects)

# Our warnings do not apply to the server's headers, because they are included as system headers.
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

# Released scripts stay installable, so the library must export the symbols that they name. jobq_shard uses the library, too.
shard_scripts = router/sql/shard/*.sql $(patsubst %,router/sql/%/jobq_shard--*.sql,releases upgrades)
build/exports.txt: jobq--$(version).sql $(DATA) $(wildcard $(shard_scripts)) scripts/exports.sh
	@mkdir -p build
	bash scripts/exports.sh $(filter %.sql,$^) > $@.new
	mv $@.new $@

# The address of the repository at the code host, for META.json. GitHub sets these variables.
GITHUB_SERVER_URL ?= https://jobq.invalid
GITHUB_REPOSITORY ?= jobq
repository = $(GITHUB_SERVER_URL)/$(GITHUB_REPOSITORY)

all: META.json ## Build the library and the install script (the default)
install: ## Install jobq into the server of PG_CONFIG, as root
installcheck: ## Run the SQL and isolation tests on a running server; REGRESS="00_install claim" and ISOLATION=two_claims select tests
clean: ## Delete what was built
META.json: META.json.in jobq.control
	sed 's|@VERSION@|$(version)|g; s|@REPOSITORY@|$(repository)|g' $< > $@

# The extensions of a cluster, jobq_router and jobq_shard, are a project of their own, which is built and installed with jobq.
router_goals = all install uninstall clean
.PHONY: $(router_goals:%=router-%)
$(router_goals): %: router-%
$(router_goals:%=router-%): router-%:
	@$(MAKE) --no-print-directory -C router $*
router-all: jobq--$(version).sql
router-install: router-all

# The table of functions in docs/reference/functions.md is generated from the comments in src/sql and from src/queues/roles.cpp.
docs: ## Update the table of functions in docs/reference/functions.md
check-reference: ## Check that the table of functions in docs/reference/functions.md is up to date
.PHONY: docs check-reference
docs check-reference: jobq--$(version).sql
	@scripts/reference.sh $(if $(filter check-reference,$@),--check) $<

# The linker ignores exported symbols that the library does not define.
.PHONY: check-exports
check-exports: $(shlib) ## Check that the library defines every function that the scripts name
	@bash scripts/exports.sh --check $(SHLIB_EXPORTS) $(shlib)

endif
