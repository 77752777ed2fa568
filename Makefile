# The two commands that a newcomer needs are "make run" and "make test". Both
# need Go. Tests of the providers also talk to aimock, and those of AG-UI to its
# own client. Both run on Node.js 20 or newer, and are installed where npm is
# there; where it isn't, those tests are skipped. So are those with PostgreSQL,
# where its programs aren't installed. What runs where, and how long, is in
# docs/developing.md.
SHELL       = /bin/bash
.SHELLFLAGS = -o pipefail -c
GO         ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME   ?= 10s
BENCH      ?= .
BENCHFLAGS ?=
TESTFLAGS  ?=
PROVE      ?=
VERSION    ?=
AIMOCK      = @copilotkit/aimock@1.43.0
AGUI        = @ag-ui/client@1.0.0
# npm trusts authorities of its own, and not those that the machine trusts beside them, such as a company's.
export NODE_EXTRA_CA_CERTS ?= $(firstword $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem))

# The modules of go.work, the core first.
MODULES = $(shell $(GO) list -m -f '{{.Dir}}')
PROVIDERS = $(foreach m,$(MODULES),$(if $(findstring /provider/,$(m)),$(m)))
# The race detector needs a C compiler on most systems; without one, the tests run without it.
RACE = $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)

.PHONY: help run test test-jsonv2 test-providers test-real aimock agui-client postgresql lint fmt bench scale fuzz prove release-check release

help: ## what there is to make
	@grep -E '^[a-z0-9-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

run: ## the example: a call waits, its process exits, a webhook brings it back
	$(GO) run ./examples/deploy

# One go test for all modules, so that no core waits for the last package of
# one. FERMATA_TESTS says how long the tests are: short where it isn't set. make
# lint vets, so this doesn't. A process with the race detector waits a second at
# its exit, for reports of goroutines that still run: a tenth is enough. The
# packages that take longest begin first, so that none is left alone at the end.
# Many wait for processes, so there is one package more at once than cores.
ATONCE  = $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
LONGEST = ./runner ./fermatatest ./provider/openai ./internal/machines ./internal/fleet .
test: aimock agui-client postgresql ## all tests of all modules, with the race detector; every kind, and each short
	@GORACE="atexit_sleep_ms=100 $$GORACE" $(GO) test $(RACE) -vet=off -p $(ATONCE) -timeout 15m $(TESTFLAGS) $(LONGEST) $(addsuffix /...,$(MODULES))

# Packages that read or write JSON.
JSON = ./event ./internal/gotype ./internal/handles ./internal/jsontree ./internal/modeltext ./internal/schema ./internal/session \
	./internal/strictjson ./internal/toolbox ./llm/... ./session ./tool/...

test-jsonv2: ## the core as Go's coming encoding/json has it
	@GOEXPERIMENT=jsonv2 $(GO) build ./...
	@GOEXPERIMENT=jsonv2 $(GO) test $(JSON)

test-providers: aimock ## the tests of the model providers alone
	@set -e; for m in $(PROVIDERS); do (cd "$$m" && $(GO) test $(RACE) ./...); done

# FERMATA_ANTHROPIC_MODEL, FERMATA_OPENAI_MODEL and FERMATA_GEMINI_MODEL choose other models.
test-real: ## the providers against the real services whose keys are in the environment; costs a little money
	@set -e; for m in $(PROVIDERS); do (cd "$$m" && FERMATA_REAL=1 $(GO) test -v -count=1 -run 'Real$$' ./...); done

aimock: ## install the server that the providers' tests talk to, into .tools
	@$(call install,$(AIMOCK),.tools)

agui-client: ## install the client that the tests of AG-UI run, into .tools/agui
	@$(call install,$(AGUI),.tools/agui)

postgresql: ## say whether the tests with PostgreSQL and pgbouncer run
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || test -n "$$FERMATA_POSTGRES" \
		|| echo "PostgreSQL is missing (Debian's package postgresql): the tests with it are skipped"
	@test -x /usr/sbin/pgbouncer || command -v pgbouncer >/dev/null \
		|| echo "pgbouncer is missing (Debian's package pgbouncer): the tests with it are skipped"

# Each package has a folder of its own: npm takes away what it isn't told of.
install = package=$(1); name=$${package%@*}; \
	if grep -qs "\"version\": \"$${package\#\#*@}\"" $(2)/node_modules/$$name/package.json; then :; \
	elif ! command -v npm >/dev/null; then echo "npm is missing: the tests with $$name are skipped"; \
	else mkdir -p $(2) && npm install --prefix $(2) --no-save --no-package-lock --no-audit --no-fund --loglevel error $$package >/dev/null \
		|| echo "npm couldn't install $$name: the tests with it are skipped"; fi

lint: ## formatting, go vet, staticcheck
	@unformatted="$$(gofmt -l .)"; test -z "$$unformatted" || { echo "not formatted, make fmt would: $$unformatted"; exit 1; }
	@set -e; for m in $(MODULES); do (cd "$$m" && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...); done

fmt: ## format all code
	gofmt -w .

bench: ## all benchmarks, as one table; BENCH=Cycle BENCHFLAGS='-count 5' for some of them, more often
	@$(GO) test -run '^$$' -bench '$(BENCH)' $(BENCHFLAGS) -timeout 30m ./bench/... | $(GO) run ./internal/benchtable

SCALE ?=

scale: ## what a cycle costs on PostgreSQL, beside two other systems, for half an hour; it fills the tables of docs/scale.md; SCALE='-for 5s -paused 10000 -held 30s' for less
	@cd bench/engines && $(GO) run . -page ../../docs/scale.md $(SCALE)

# Not those of the providers: to fuzz, Go instruments all that a package
# imports, and the vendors' SDKs take it many minutes. Their corpora are tests,
# too. For one of them: make fuzz FUZZMODULES=$$PWD/provider/gemini
FUZZMODULES ?= $(filter-out $(PROVIDERS),$(MODULES))

fuzz: ## each fuzz test for FUZZTIME
	@set -e; for m in $(FUZZMODULES); do cd "$$m"; \
		$(GO) list -f '{{.Dir}}' ./... | while read -r dir; do \
			for f in $$(cat "$$dir"/*_test.go 2>/dev/null | sed -nE 's/^func (Fuzz[A-Za-z0-9_]+).*/\1/p'); do \
				echo "== $$dir $$f"; \
				$(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "$$dir" </dev/null; \
			done; \
		done; done

prove: ## nothing lost, nothing twice: the tests of it at full length, for an hour or more, as one table; PROVE='-for 8m' for less
	@$(GO) run ./internal/prove $(PROVE)

release-check: ## a program outside the tree against all modules of HEAD, as they would be tagged
	@$(GO) run ./internal/tools/release check

release: ## what to tag in which order, as commands; it changes nothing: make release VERSION=v0.1.0
	@$(GO) run ./internal/tools/release plan $(VERSION)
