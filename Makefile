# What a person or a CI machine does to this tree. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

GO ?= go

# The version that `nettoll version` prints: the nearest tag, the commits since, and whether the tree was changed. A commit's name
# is abbreviated to the same length in every clone.
VERSION ?= $(shell git describe --tags --always --abbrev=12 --dirty 2>/dev/null || echo unknown)

# Where `make man` and `make release` put what they make.
DIST ?= dist

# Systems that nettoll is compiled for besides Linux: there it plans, reports and compares, and says of the rest that it needs Linux.
ELSEWHERE := darwin freebsd windows

# PKG and TESTFLAGS narrow a test run down: make test PKG=./measure TESTFLAGS='-run TestFloor -v'
PKG ?= ./...
TESTFLAGS ?=

# Static, without a C library: the program is copied into containers and guests, and its namespaces are entered by
# threads that no C library may have started. The tests run what ships, and the linter reads it.
build test test-slow test-without test-without-all test-leaks test-watch fuzz test-guest test-guest-carriers test-guest-rare test-kube test-kube-short test-kube-full test-between test-filtered test-guest-between attack-guest fuzz-sink parts security lint bench man docs: export CGO_ENABLED = 0

.PHONY: help
help: ## list what make can do here
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

.PHONY: build
build: ## build the static binary, bin/nettoll
	$(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/nettoll

.PHONY: man
man: ## write the manual pages, dist/man
	$(GO) run ./cmd/man $(DIST)/man $(VERSION)
	@# where a formatter is installed, it is asked what it thinks of them
	@for page in $(DIST)/man/*.1; do ! command -v groff >/dev/null || test -z "$$(groff -man -Tutf8 -ww -z "$$page" 2>&1 | tee /dev/stderr)"; done

.PHONY: docs
docs: ## write docs/workloads.md and docs/between.md from the catalogue
	$(GO) run ./cmd/docs docs/workloads.md
	$(GO) run ./cmd/docs docs/between.md

.PHONY: generate
generate: ## compile the eBPF programs anew, with clang-14
	@GO=$(GO) scripts/objects

.PHONY: generate-check
generate-check: ## show that the objects of eBPF programs are those of their sources
	@GO=$(GO) scripts/objects --check

.PHONY: release
release: ## make the archives of a release for amd64 and arm64, dist/
	@GO=$(GO) scripts/release $(DIST) $(VERSION)

.PHONY: release-check
release-check: ## show that two builds of a release are the same, byte for byte (minutes)
	@GO=$(GO) scripts/release --check

.PHONY: deps
deps: ## fetch the modules, compile the linter (minutes, once), say what this machine lacks
	$(GO) mod download
	@$(call fetch,internal/testcni/tap)
	$(golangci-lint) version
	@scripts/needs

# Tests that need the machine to themselves, of packages whose other tests do not.
stalls := '^TestStalls?$$'

.PHONY: test
test: export NETTOLL_TURN := $(shell echo $$(($$(date +%s) / 3600)))
test: ## say what this machine lacks, then run the tests, but for slow ones and two thirds of long tables (test-slow), guests (test-guest) and clusters (test-kube)
	@echo "of tests that take turns: those of hour $$NETTOLL_TURN (make test NETTOLL_TURN=$$NETTOLL_TURN makes the same again)"
	@scripts/needs
	@# What compares figures has the machine to itself; what sends traffic shares it with one other package, since most of a trial is waiting for its end; the rest shares it by
	@# sixes: most of what it does is waiting for the kernel. Those that take longest come first, or they would end alone. Tests of stalls look for trials from which nothing was
	@# taken, and come last, alone.
	@all=$$($(GO) list $(PKG)); status=0; \
	  take() { grep -E "^[^/]+/[^/]+/[^/]+/($$1)(/|$$)" <<<"$$all" || true; }; but() { grep -vxF "$$1" <<<"$$all" || true; }; \
	  together() { [[ $$# == 1 ]] || $(GO) test -p "$$1" -timeout 20m $${skip-} $(TESTFLAGS) "$${@:2}" || status=$$?; }; \
	  still=$$(take 'workload/(dns|kv|ping|tcpcrr|tcprr|udprr|underload)'); \
	  alone=$$(take 'cmd|study|workload/command|internal/linux/idle'); all=$$(but "$$alone"); two=$$(take 'byhand|driver|traffic|workload'); all=$$(but "$$two"); \
	  long=$$({ take 'proof/attack'; take 'catalogue|encryption|filter|measure|network|proof|runtime|tunnel'; } | awk '!seen[$$0]++'); \
	  together 6 $$long $$(but "$$long"); skip=-skip=$(stalls) together 2 $$two; together 1 $$alone; skip=-run=$(stalls) together 1 $$still; exit $$status

# Packages with tests, or forms of tests, that are too slow for CI (testnet.Slow, testnet.IsSlow) or that it makes in one of three hours (testnet.Turn, testnet.IsTurn): TestSlowIsWhole holds the list whole.
SLOW_PKG := ./byhand ./catalogue ./cmd/nettoll ./encryption/... ./filter/... ./network/cni ./network/networktest ./proof/attack ./tunnel/...

.PHONY: test-slow
test-slow: export NETTOLL_SLOW = 1
test-slow: ## run in full the packages of which CI leaves out what is slow and rare (about half an hour)
	@$(call fetch,internal/testcni)
	@$(MAKE) test PKG='$(SLOW_PKG)'

# fetch gets the modules of programs that tests build: the namespaces of tests have no network.
fetch = for mod in $(foreach d,$(1),$(wildcard $(d)/go.mod $(d)/*/go.mod)); do (cd "$$(dirname "$$mod")" && $(GO) mod download); done

# Packages whose tests start a Kubernetes cluster (testnet.Kube): TestKubeIsWhole holds the list whole.
KUBE_PKG := ./deploy/kubernetes ./internal/kubectl ./internal/testkube

.PHONY: test-kube
test-kube: export NETTOLL_KUBE = 1
test-kube: ## start real Kubernetes clusters in namespaces and run tests in them (nearly twenty minutes; ten more the first time)
	@$(call fetch,internal/testkube/cluster internal/testkube/multus)
	$(GO) test -p 1 -count=1 -timeout 30m $(TESTFLAGS) $(KUBE_PKG)

# What CI has time for of it: an experiment as a user runs it, and another part each hour.
KUBE_PARTS := drivers own_namespace monitor monitor_refused restricted no_image few_nodes resumed policy policy_unenforced rights unattached services several restarts quota evicted node_lost killed|cleaned killed_early killed_pending
KUBE_HOURLY := $(word $(shell echo $$(($$(date +%s) / 3600 % $(words $(KUBE_PARTS)) + 1))),$(KUBE_PARTS))

.PHONY: test-kube-short
test-kube-short: export NETTOLL_KUBE = 1
test-kube-short: ## run what CI has time for of test-kube: a cluster, an experiment, and another part each hour (minutes; ten more the first time)
	@$(call fetch,internal/testkube/cluster)
	$(GO) test -count=1 -timeout 30m -run '^TestObjectsAreValid$$|^TestCluster$$/^(example|$(KUBE_HOURLY))$$' $(TESTFLAGS) ./deploy/kubernetes

# Packages with tests of clusters that make test-kube has no time for (testnet.KubeFull): TestKubeFullIsWhole holds the list whole.
KUBE_FULL_PKG := ./deploy/kubernetes ./internal/testkube

.PHONY: test-kube-full
test-kube-full: export NETTOLL_KUBE = full
test-kube-full: ## run these, and tests in clusters with other networks (policies, VXLAN) or 1,000 fake nodes (over an hour; another hour the first time)
	@$(call fetch,internal/testkube internal/testcni)
	$(GO) test -p 1 -count=1 -timeout 2h $(TESTFLAGS) $(KUBE_FULL_PKG)

# Packages with tests that start optional programs: TestWithoutIsWhole holds the lists whole.
WITHOUT_PKG ?= . ./cli ./control ./driver/... ./encryption/ipsec ./encryption/openvpn ./encryption/tinc ./filter/filtertest ./filter/ipset ./filter/iptables ./filter/ovs ./host/guest ./internal/linux/ipset ./internal/linux/iptables ./internal/linux/nft/... ./internal/linux/ovs ./runtime/containerd ./runtime/docker ./runtime/lxc ./runtime/netns ./runtime/oci ./runtime/podman \
  ./internal/linux/pcapng ./internal/linux/process ./internal/linux/watch ./network/cni ./network/ovs ./report/figure ./traffic/program ./tunnel/geneve ./tunnel/tunneltest ./tunnel/vxlan ./workload/command ./workload/dns ./workload/http ./workload/kv ./workload/tbench
# Those that take minutes each, for a few tests that start some: make test-without-all has them.
WITHOUT_LONG := ./catalogue ./filter/ebpf ./filter/nftables ./proof/attack ./study

# Those that take seconds when all programs are there: test-without runs them once more with one program hidden, another one each hour.
WITHOUT_FAST := . ./cli ./host/guest ./internal/linux/ipset ./internal/linux/iptables ./internal/linux/nft/... ./internal/linux/ovs ./internal/linux/pcapng ./internal/linux/process ./internal/linux/watch ./report/figure

.PHONY: test-without
test-without: ## run tests that start programs as on a machine where none of them is installed, and some without one of them
	@scripts/without $(GO) test -p 2 -timeout 10m -skip=$(stalls) $(TESTFLAGS) $(WITHOUT_PKG)
	@scripts/without $(GO) test -timeout 10m $(TESTFLAGS) -run 'TestScript|TestRunScript/run-(driver|http|filter|command)|Doctor|ProgramDies' ./cmd/nettoll
	@scripts/without --hide hourly $(GO) test -p 2 -timeout 10m $(TESTFLAGS) $(WITHOUT_FAST)

.PHONY: test-without-all
test-without-all: ## run the tests of make test as on a machine where no optional program is installed (as long as that)
	@scripts/without $(MAKE) test

# Runs of all workloads of the engine, with what carries packets between hosts, and the shortest one, in which two workers pass the turn.
RACE_RUN := --trial 100ms --pairs 2 --filter none,nftables $(foreach w,udp-rate 'mix(udp-rr(in-flight=4),tcp-stream(flows=2))' tcp-rr tcp-crr kv http dns 'burst(on=20ms,off=20ms)' quake3 under-load 'connections(connections=10)' ping,--workload $(w))
RACE_RUN_SHORT := --placement same-host --workload udp-rr --workload tcp-stream

# What a run with the race detector takes: a program of its own, whose reports are in files, because that of a worker is not on the terminal.
race-run = dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; $(GO) build -race -o "$$dir" ./cmd/nettoll; \
  GORACE="$$GORACE log_path=$$dir/race" "$$dir/nettoll" run --time 2s --network bridge $(1) -o "$$dir/run"; ! cat "$$dir"/race.* 2>/dev/null

# Packages whose own goroutines and connections meet, as far as CI has time for them. The rest is left to make race.
RACE_PKG := ./byhand ./control ./host/agent ./host/protocol ./lab

.PHONY: race-short
race-short: export CGO_ENABLED = 1
race-short: export GORACE = atexit_sleep_ms=0 # tests wait for the end of processes
race-short: ## run the tests of packages with many goroutines, and a short run, with the race detector, as CI does
	$(GO) test -race -p 2 -timeout 15m $(TESTFLAGS) $(RACE_PKG)
	$(call race-run,$(RACE_RUN_SHORT))

.PHONY: race
race: export CGO_ENABLED = 1
race: export GORACE = atexit_sleep_ms=0 # tests wait for the end of processes
race: ## run tests and a run of nearly all workloads with the race detector (minutes)
	$(GO) test -race -p 2 -timeout 30m ./byhand ./control ./experiment ./host/... ./internal/... ./lab ./measure ./part ./report/... ./suite ./traffic/...
	$(call race-run,$(RACE_RUN))

# Studies of nettoll with nettoll, whose figures only many runs give.
.PHONY: nightly
nightly: build race test-slow ## do what takes too long for CI: all race tests, slow tests, fuzz targets; count how often intervals hold the truth (hours)
	$(MAKE) fuzz FUZZTIME=1m
	bin/nettoll study twins
	bin/nettoll study effect
	bin/nettoll study compare

# How long `make fuzz` runs each target: so many inputs, or a time.
FUZZTIME ?= 1000000x

.PHONY: fuzz
fuzz: ## run every fuzz target for a million inputs (an hour or two), or make fuzz FUZZTIME=1m PKG=./part
	@GO=$(GO) scripts/fuzz $(FUZZTIME) $(PKG)

# Of what carries packets between hosts by devices that the kernel here lacks, two packages each hour: that packets cross, between every two of four hosts, in frames of
# the right form. All of their tests take longer than the rest of CI: make test-guest-carriers runs them.
GUEST_BETWEEN := './encryption/wireguard=^TestConformanceKernel$$/^wireguard\(impl=kernel\)$$/^(wire|forged|four_hosts)$$' \
  './tunnel/geneve=^TestConformance$$/^geneve\(impl=kernel\)$$/^(wire|four_hosts)$$' './encryption/ipsec=^TestTransport$$/^(gre|vxlan)\+ipsec' \
  './tunnel/ipip=^TestConformance$$/^ipip\(impl=kernel\)$$/^(wire|four_hosts)$$' './encryption/macsec=^TestConformance$$/^macsec$$/^(wire|forged|four_hosts)$$' \
  './tunnel/gre=^TestConformance$$/^gre\(impl=kernel\)$$/^(wire|four_hosts)$$'
GUEST_HOUR := $(shell echo $$(($$(date +%s) / 3600 % 3 * 2)))
GUEST_HOURLY := $(wordlist $(shell echo $$(($(GUEST_HOUR) + 1))),$(shell echo $$(($(GUEST_HOUR) + 2))),$(GUEST_BETWEEN))

# Packages with tests for what the kernel here may lack: network devices and datapaths that are modules. The others' tests would only repeat themselves there. What follows a
# package's = is which of its tests, as of go test -run. Labs with daemons take 40 to 80 s each there, which is too long for CI: make test-guest-rare has them. On a busy
# machine they fail, because Docker waits for its containerd for 15 s only.
GUEST_PKG_6.12 := ./host/guest ./internal/linux/link ./network/ipvlan ./network/ovs ./filter/ovs ./network/ebpf=/netkit './cmd/nettoll=^TestNetworksOfRuntimes$$/^ipvlan.*@(oci|lxc)$$' './runtime/oci=^TestConformance$$/^runc$$/^AppArmor' './runtime/lxc=^TestConformance$$/^AppArmor|^TestConformance$$/^usual$$/^(cgroups|limits)$$' './network/networktest=^TestUnderlay(Late|Delay)$$' './internal/linux/cgroup=^Test(MakeLeaf|Remove|UsableInNamespace)$$' './runtime=^TestSetSwap$$' './runtime/netns=^TestConformance$$/^group=own$$' $(GUEST_HOURLY)
# All that carries packets between hosts by such devices.
GUEST_CARRIERS := ./tunnel/geneve ./tunnel/ipip=/kernel ./tunnel/gre=/kernel ./tunnel/tunneltest './catalogue=TestRoutedUnderlay|TestPaths' ./encryption/wireguard ./encryption/ipsec ./encryption/macsec
# What the kernel here lacks, too, or shows beside cgroups of v1, and CI has no time for: a guest has cgroups of v2 alone. network/cni comes last: beside other work its plugins
# took 48 minutes there, and the rest had no time left.
GUEST_RARE := './internal/linux/watch=^Test(VLANsAreNamed|AssociationsAreCompared)$$' './proof/attack=^TestUnfiltered$$/^ipvlan' './runtime/oci=^TestConformance$$/^(runc|crun)$$/^usual$$/^(cgroups|limits)$$' './runtime/lxc=^TestConformance$$/^usual$$/^(cgroups|limits|death|kill|alone)$$' './runtime/docker=^TestConformance$$/^AppArmor|^TestConformance$$/^usual$$/^(cgroups|limits|death|kill|alone)$$' './runtime/podman=^TestConformance$$/^runc$$/^AppArmor|^TestConformance$$/^(runc|crun)$$/^usual$$/^(cgroups|limits)$$' './runtime/containerd=^TestConformance$$/^runc$$/^AppArmor|^TestConformance$$/^(runc|crun)$$/^usual$$/^(cgroups|limits)$$' './cmd/nettoll=^TestNetworksOfRuntimes$$/^ipvlan.*@docker$$|^cni.plugin=(ip)?vlan.@(oci|lxc)$$' './network/cni=^TestConformance$$/plugin=(ip)?vlan'
# The least kernel that README promises, that of Debian 12: what networks and filters take of it. Open vSwitch comes last: with its module that kernel puts fragments together
# in every namespace before filters see them (docs/filters.md).
GUEST_PKG_6.1 := ./network/host=Conformance ./network/bridge=Conformance ./network/macvlan=Conformance ./network/nat=Conformance ./network/routed=Conformance \
  ./network/ipvlan ./network/ebpf ./filter/ebpf=TestCheck ./filter/nftables=Conformance ./filter/iptables=Conformance ./filter/ipset=Conformance ./internal/linux/link \
  ./network/ovs ./filter/ovs
KERNEL ?= 6.12
# How long a guest may run: with 6.1 it runs many whole suites, of some minutes each.
GUEST_LIMIT := $(if $(filter 6.1,$(KERNEL)),2h,15m)
GUEST_PKG ?= $(GUEST_PKG_$(KERNEL))

.PHONY: test-guest
test-guest: ## run tests in a virtual machine with Debian's kernel for clouds: make test-guest PKG=./network/bridge TESTFLAGS='-run TestPlan', or KERNEL=6.1
	@$(GO) run ./cmd/testguest -kernel $(KERNEL) -limit $(GUEST_LIMIT) $(TESTFLAGS) $(if $(filter-out file,$(origin PKG)),$(PKG),$(GUEST_PKG))

.PHONY: test-guest-carriers
test-guest-carriers: ## run tests of tunnels and encryptions by the kernel, in a virtual machine (about half an hour)
	@$(GO) run ./cmd/testguest -kernel $(KERNEL) -limit 1h $(TESTFLAGS) $(GUEST_CARRIERS)

.PHONY: test-guest-rare
test-guest-rare: ## run what CI has no time for, in a virtual machine (over an hour; two on a busy machine)
	@$(GO) run ./cmd/testguest -kernel $(KERNEL) -limit 2h $(TESTFLAGS) $(GUEST_RARE)

# Which pairs of a tunnel and an encryption test-between tries: ONLY='vxlan.*openvpn/bridge', as a regular expression.
ONLY ?= .

.PHONY: test-between
test-between: ## try every tunnel on every encryption, under three networks and in both families: dist/between.txt (minutes)
	@mkdir -p $(DIST)
	@status=0; $(GO) test -count=1 -v -parallel 6 -timeout 1h -run '^TestBetween$$' ./catalogue -args -only '$(ONLY)' -table $(abspath $(DIST))/between.txt \
	  >$(DIST)/between-here.txt || status=$$?; grep -E -- '--- FAIL|between\.go:' $(DIST)/between-here.txt || true; cat $(DIST)/between.txt; exit $$status

.PHONY: test-filtered
test-filtered: ## try every filter with every tunnel and every encryption between hosts, or ONLY='ebpf/.*vxlan' (minutes)
	$(GO) test -count=1 -parallel 6 -timeout 3h -run '^TestFiltered$$' ./catalogue -args -only '$(ONLY)'

.PHONY: test-guest-between
test-guest-between: ## try those that need a kernel with modules, in a virtual machine (hours)
	@mkdir -p $(DIST)
	@status=0; $(GO) run ./cmd/testguest -kernel $(KERNEL) -limit 6h -v './catalogue=^TestBetween$$' >$(DIST)/between-guest.txt || status=$$?; \
	  grep -E ' \| (MTU|not)' $(DIST)/between-guest.txt; exit $$status

.PHONY: test-leaks
test-leaks: ## plant each leak around tunnels and encryptions in 20 runs (minutes)
	$(GO) test ./cmd/nettoll -count=1 -timeout 1h -run '^TestLeak$$' -leaks 20

# How many runs busy makes.
RUNS ?= 10
.PHONY: busy
busy: ## run the default experiment beside two spinning programs: every run has to say that it is too noisy to tell (minutes): make busy RUNS=1
	bash scripts/busy $(RUNS)

# How many runs each leak is planted in, and in how many runs of five generations no change may be seen.
PLANTS ?= 100
CLEAN ?= 100

.PHONY: test-watch
test-watch: ## plant each kind of leak in the middle of 100 runs, and look for false alarms in 500 generations (hours)
	$(GO) test ./cmd/nettoll -count=1 -timeout 10h -v -run '^TestWatch' -plants $(PLANTS) -clean $(CLEAN)

# How long fuzz-sink attacks.
FOR ?= 1h

.PHONY: fuzz-sink
fuzz-sink: build ## play sequences of messages to a running nettoll sink, from several addresses and with honest sources in between: make fuzz-sink FOR=10m
	$(GO) test ./byhand -count=1 -timeout 0 -v -run '^TestAttack$$' -attack $(FOR) -program $(CURDIR)/bin/nettoll

.PHONY: parts
parts: test-between ## run the conformance suites of networks, filters and pairs, here and in a guest, and write docs/parts.md (minutes)
	@# What make test-guest-between has left is taken as it is: it takes hours.
	@mkdir -p $(DIST)
	@$(call fetch,internal/testcni)
	@NETTOLL_SLOW=1 $(GO) test -count=1 -v -run '^(TestConformance|TestFlannel|TestTap)$$' ./network/... ./filter/... >$(DIST)/parts-here.txt || { grep -- '--- FAIL' $(DIST)/parts-here.txt; exit 1; }
	@NETTOLL_SLOW=1 $(GO) test -count=1 -v -run '^TestNetworksOfRuntimes$$' ./cmd/nettoll >>$(DIST)/parts-here.txt || { grep -- '--- FAIL' $(DIST)/parts-here.txt; exit 1; }
	@$(GO) run ./cmd/testguest -limit 1h -v $(foreach p,network/ipvlan network/ovs network/ebpf filter/ovs,'./$(p)=^TestConformance$$') \
	  './network/cni=^TestConformance$$/plugin=(ip)?vlan' './cmd/nettoll=^TestNetworksOfRuntimes$$/^ipvlan' >$(DIST)/parts-guest.txt
	$(GO) run ./cmd/docs docs/parts.md '$(VERSION)' "$$(uname -r | cut -d. -f1,2)=$(DIST)/parts-here.txt" "6.12 (guest)=$(DIST)/parts-guest.txt" \
	  "$$(uname -r | cut -d. -f1,2)=$(DIST)/between-here.txt" $(foreach f,$(wildcard $(DIST)/between-guest.txt),"6.12 (guest)=$(f)")

.PHONY: attack
attack: ## attack every stack of networks and filters, with 2 and 3 pairs, and print what got through, dist/attack.txt (about two hours)
	@mkdir -p $(DIST)
	@status=0; $(GO) test -count=1 -timeout 4h -v -run '^TestMatrix$$' ./proof/attack -args -all -labs 16 -table $(abspath $(DIST))/attack.txt | \
	  tee $(DIST)/attack.log | $(ATTACKED) || status=$$?; cat $(DIST)/attack.txt; exit $$status

# What the terminal shows while stacks are attacked: a line for each lab that is done.
ATTACKED := sed -u -n 's/^\(guest: *\)\?\([0-9]* of [0-9]*: \)/\2/p'

# Networks that need what the kernel here may lack: a network device, or a datapath (in a guest, ovs takes the kernel's by default).
ATTACK_GUEST ?= ebpf(attach=netkit) ovs(datapath=kernel) ovs(flows=explicit) ipvlan ipvlan(mode=l3) ipvlan(mode=l3s)

.PHONY: attack-guest
attack-guest: ## attack stacks of networks that this kernel may lack, in a virtual machine, dist/attack-guest.txt (hours), or make attack-guest ATTACK_GUEST=ipvlan ONLY='nftables/.*/2'
	@mkdir -p $(DIST)
	@# A guest for each network: what one has found is kept if the next one fails. More labs at a time are not built within the limit. All 65,536 ports would take a guest a minute more for a lab.
	@status=0; : >$(DIST)/attack-guest.txt; for network in $(foreach n,$(ATTACK_GUEST),'$(n)'); do \
	  $(GO) run ./cmd/testguest -kernel $(KERNEL) -limit 5h -v './proof/attack=^TestMatrix$$' -args -all -sampled -labs 2 -network "$$network" -only '$(ONLY)' -table - \
	    | tee $(DIST)/attack-guest.log | $(ATTACKED) || { status=$$?; grep -A 40 '^guest: what failed' $(DIST)/attack-guest.log || true; }; \
	  sed -n '/^guest:     lab /,/^guest: [^ ]/s/^guest:     //p' $(DIST)/attack-guest.log | tee -a $(DIST)/attack-guest.txt; done; exit $$status

.PHONY: attack-wire
attack-wire: ## attack every tunnel and encryption on every network from the underlay and print the verdicts, dist/attack-wire.txt (about an hour)
	@mkdir -p $(DIST)
	@status=0; $(GO) test -count=1 -timeout 4h -run '^TestMatrix$$' ./proof/wire -args -all -table $(abspath $(DIST))/attack-wire.txt >$(DIST)/attack-wire.log || status=$$?; \
	  cat $(DIST)/attack-wire.txt; exit $$status

# Stacks of the tables in docs/security.md: each network without a filter, and each filter on the networks that it is usually found on, with what binds addresses where there is that.
SECURITY_ONE_HOST := bridge routed nat(hairpin=true) macvlan macvlan(mode=passthru) ipvlan passthrough ovs ovs(flows=explicit) ebpf host overlay \
  cni cni(plugin=ptp) cni+nftables(antispoof=true) \
  bridge+nftables bridge+nftables(antispoof=true) bridge+nftables(stateful=true) bridge+iptables bridge+ipset bridge+ebpf routed+nftables routed+iptables(stateful=true) \
  routed+nftables(antispoof=true) macvlan+nftables passthrough+iptables ovs+ovs ovs+ovs(stateful=true) ovs+ovs(antispoof=true) ebpf+ebpf ebpf+ebpf(antispoof=true)
SECURITY_TWO_HOSTS := nat nat+nftables(stateful=true) overlay
# Attacked from the wire alone: what the network does without a carrier, and each carrier.
SECURITY_WIRE := bridge bridge+vxlan bridge+ipip bridge+gre bridge+geneve overlay bridge+wireguard bridge+ipsec bridge+openvpn bridge+tinc bridge+macsec \
  bridge+vxlan+wireguard bridge+gre+ipsec nat+wireguard

.PHONY: security
security: build ## attack a choice of stacks and write the tables of docs/security.md (half an hour)
	@mkdir -p $(DIST)
	@# 3: what this kernel lacks was not tried, and the tables say so
	bin/nettoll prove --placement same-host $(foreach s,$(SECURITY_ONE_HOST),--stack '$(s)') --format json >$(DIST)/security-one.json || [[ $$? == 3 ]]
	bin/nettoll prove --placement cross-host $(foreach s,$(SECURITY_TWO_HOSTS),--stack '$(s)') --format json >$(DIST)/security-two.json || [[ $$? == 3 ]]
	bin/nettoll prove --placement cross-host --attack wire $(foreach s,$(SECURITY_WIRE),--stack '$(s)') --format json >$(DIST)/security-wire.json || [[ $$? == 3 ]]
	$(GO) run ./cmd/docs docs/security.md '$(VERSION)' $(foreach f,one two wire,"$$(uname -r | cut -d. -f1,2)=$(DIST)/security-$(f).json")

.PHONY: lint
lint: ## check format, imports between packages, house rules, go.mod, and that it compiles elsewhere than on Linux
	$(golangci-lint) run
	$(GO) mod tidy -diff
	for os in $(ELSEWHERE); do GOOS=$$os $(GO) build -o /dev/null ./cmd/nettoll; done

.PHONY: fmt
fmt: ## write the format that lint asks for
	$(golangci-lint) fmt

.PHONY: bench
bench: ## compare with other tools on this machine, or make bench SECTION=streams: with iperf3 across hosts
	@scripts/needs
	$(GO) run ./bench $(if $(SECTION),-only $(SECTION))

# The linter is a tool of a module of its own, so that what it depends on is not what the program depends on. The Go
# build cache keeps it: where it is compiled already, this takes half a second. It is compiled as the machine does by
# default, whatever the target exports.
golangci-lint = "$$(env -u CGO_ENABLED -u GOFLAGS $(GO) tool -modfile=tools/go.mod -n golangci-lint)"
