# What a person or a CI machine does to this tree. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

GO ?= go

# The version that `nettoll version` prints: the nearest tag, the commits since, and whether the tree was changed.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# PKG and TESTFLAGS narrow a test run down: make test PKG=./measure TESTFLAGS='-run TestFloor -v'
PKG ?= ./...
TESTFLAGS ?=

# Static, without a C library: the program is copied into containers and guests, and its namespaces are entered by
# threads that no C library may have started. The tests run what ships, and the linter reads it.
build test lint bench: export CGO_ENABLED = 0

.PHONY: help
help: ## list what make can do here
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

.PHONY: build
build: ## build the static binary, bin/nettoll
	$(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/...

.PHONY: deps
deps: ## fetch the modules, compile the linter (minutes, once), say what this machine lacks
	$(GO) mod download
	$(golangci-lint) version
	@scripts/needs

.PHONY: test
test: ## say what this machine lacks, then run every test
	@scripts/needs
	@# one package at a time: tests that measure share a small machine badly
	$(GO) test -p 1 -timeout 20m $(TESTFLAGS) $(PKG)

.PHONY: lint
lint: ## check format, imports between packages, house rules and go.mod
	$(golangci-lint) run
	$(GO) mod tidy -diff

.PHONY: fmt
fmt: ## write the format that lint asks for
	$(golangci-lint) fmt

.PHONY: bench
bench: ## compare with other tools on this machine
	@scripts/needs
	$(GO) run ./bench

# The linter is a tool of a module of its own, so that what it depends on is not what the program depends on. The Go
# build cache keeps it: where it is compiled already, this takes half a second. It is compiled as the machine does by
# default, whatever the target exports.
golangci-lint = "$$(env -u CGO_ENABLED $(GO) tool -modfile=tools/go.mod -n golangci-lint)"
