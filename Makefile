# The two commands that a newcomer needs are "make run" and "make test". Both need Go and nothing else.
GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.6.1
MODULES = $(shell $(GO) list -m -f '{{.Dir}}')
FUZZTIME ?= 5s

.PHONY: run test lint fmt bench fuzz

run: ## the main job: a call pauses, its process ends, a webhook brings it back
	$(GO) run ./examples/deploy

test: ## all tests of all modules, with the race detector
	@set -e; for m in $(MODULES); do echo "== $$m"; (cd $$m && $(GO) test -race -timeout 10m ./...); done

lint: ## formatting, vet, staticcheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }
	@set -e; for m in $(MODULES); do (cd $$m && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...); done

fmt:
	gofmt -w .

bench: ## all benchmarks, as one table
	@$(GO) test ./bench -run '^$$' -bench . -benchtime 1x -timeout 30m | $(GO) run ./bench/table

fuzz: ## each fuzz target for a while
	@set -e; $(GO) list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r pkg dir; do \
		for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$dir/*_test.go 2>/dev/null | cut -c6-); do \
			echo "== $$pkg $$f"; $(GO) test $$pkg -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) </dev/null; \
		done; done
