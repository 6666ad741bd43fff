package experiment_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/stack"
)

// head is a valid beginning of three lines; the tests add wrong lines.
const head = "name: x\nfactors:\n  network: bridge\n"

// The error about bad input has a complete first line (place, value, alternatives) and at most five lines with the
// excerpt.
func TestReadErrors(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
	}{
		{
			"unknown key", head + "workload: udp-rr\n",
			`f.yaml:4:1: unknown key "workload" (known: name, hosts, baseline, factors, stacks, workloads, design, tune, proof, underlay); did you mean workloads?`,
		},
		{
			"unknown key within", head + "design:\n  precison: 2%\nworkloads: udp-rr\n",
			`f.yaml:5:3: unknown key "precison" in design (known: precision, until, margin, spoiled, time, generations, trial, seed, probe); did you mean precision?`,
		},
		{
			"unknown part", "factors:\n  network: [bridge, brigde]\nworkloads: udp-rr\n",
			`f.yaml:2:21: unknown network "brigde" (known: host, bridge, `,
		},
		{
			"unknown workload", head + "workloads:\n  - udp-rate: {}\n  - udp-rx\n",
			`f.yaml:6:5: unknown workload "udp-rx" (known: udp-rr, `,
		},
		{
			"unknown tunnel", head + "  tunnel: pipe\nworkloads: udp-rr\n",
			`f.yaml:4:11: unknown tunnel "pipe" (known: none, ipip, `,
		},
		{
			"form of the command line", "factors:\n  network: bridge(hairpin=on)\nworkloads: udp-rr\n",
			`f.yaml:2:12: factors.network: "bridge(hairpin=on)" is command-line syntax; in a file write {bridge: {hairpin: on}}`,
		},
		{
			"form of the command line in a list", head + "workloads: ['udp-rr(payload=64,mode=spin)', udp-rr]\n",
			`f.yaml:4:13: workloads: "udp-rr(payload=64,mode=spin)" is command-line syntax; in a file write {udp-rr: {mode: spin, payload: 64}}`,
		},
		{
			"stack for a network", "factors:\n  network: [bridge+nftables]\nworkloads: udp-rr\n",
			`f.yaml:2:13: factors.network: "bridge+nftables" is a stack, not a network; give its filter in the key filter (--filter on the command line), or name the stack under stacks (nettoll lab up takes --stack)`,
		},
		{
			"unit of a thousand", head + "workloads: {udp-rr: {payload: 1KB}}\n",
			`f.yaml:4:31: workloads.udp-rr.payload: invalid size "1KB" (write kB (1000 bytes) or KiB (1024 bytes))`,
		},
		{
			"days", head + "workloads: udp-rr\ndesign: {time: 1d}\n",
			`f.yaml:5:16: design.time: invalid duration "1d" (valid: numbers with the units ms, s, m and h, such as 500ms, 30s or 1m30s; at most 168h)`,
		},
		{
			"overlong", head + "workloads: udp-rr\ndesign: {time: 9999h}\n",
			`f.yaml:5:16: design.time: "9999h" is out of range (valid: 1ms to 168h)`,
		},
		{
			"neither on nor off", "factors:\n  network: {nat: {hairpin: maybe}}\nworkloads: udp-rr\n",
			`f.yaml:2:28: factors.network.nat.hairpin: invalid value "maybe" (valid: true, false, on, off, yes, no)`,
		},
		{
			"hosts without a count", head + "workloads: udp-rr\nhosts: {kind: local}\n",
			`f.yaml:5:8: hosts: missing key "count" (number of hosts)`,
		},
		{
			"stack called like the baseline", head +
				"baseline: {network: host}\nstacks:\n  - {name: host, network: bridge}\nworkloads: udp-rr\n",
			`f.yaml:6:12: stack "host" is already defined as the baseline at line 4`,
		},
		{
			"twice in different lines", "factors:\n  network: bridge\n  pairs:\n  - 1\n  - 2\n  - 1\nworkloads: udp-rr\n",
			`f.yaml:6:5: factors.pairs: "1" is listed twice (first at line 4)`,
		},
		{
			"unknown parameter", head + "workloads:\n  - udp-rr: {paylod: 28B}\n",
			`f.yaml:5:14: workload udp-rr has no parameter "paylod" (known: payload, mode, `,
		},
		{
			"parameter of a part without", "factors: {network: {host: {stp: on}}}\nworkloads: udp-rr\n",
			`f.yaml:1:28: network host has no parameter "stp" (known: none)`,
		},
		{
			"value of a parameter", head + "workloads:\n  - udp-rr: {mode: [wait, sleep]}\n",
			`f.yaml:5:27: workloads.udp-rr.mode: invalid value "sleep" (valid: wait, spin)`,
		},
		{
			"parameter without value", head + "workloads:\n  - udp-rr: {payload: }\n",
			`f.yaml:5:22: workloads.udp-rr.payload is empty (valid: bytes of a request, 1 to 65507)`,
		},
		{"driver", head + "workloads:\n  - udp-rr: {driver: pong}\n", `f.yaml:5:22: unknown driver "pong" (known: nettoll`},
		{"mix of one", head + "workloads:\n  - mix: [udp-rr]\n", `f.yaml:5:10: workloads.mix lists 1 (valid: 2 to 8)`},
		{"mix of none", head + "workloads:\n  - mix:\n", `f.yaml:5:5: workloads.mix is empty (valid: a list)`},
		{
			"mix of a name", head + "workloads:\n  - mix: udp-rr\n",
			`f.yaml:5:10: workloads.mix is a single value (valid: a list)`,
		},
		{
			"mix without members", head + "workloads: mix\n",
			`f.yaml:4:12: workloads is a single value (valid: a map with mix, placement, alone)`,
		},
		{
			"mix in a mix", head + "workloads:\n  - mix: [udp-rr, {mix: [udp-rr, tcp-stream]}]\n",
			`f.yaml:5:20: workloads.mix: a mix cannot be a member of a mix: list its members in the outer mix`,
		},
		{
			"key beside a mix", head + "workloads:\n  - {mix: [udp-rr, tcp-stream], share: 2}\n",
			`f.yaml:5:33: unknown key "share" in workloads (known: mix, placement, alone)`,
		},
		{
			"share", head + "workloads:\n  - mix: [{udp-rr: , share: none}, tcp-stream]\n",
			`f.yaml:5:29: workloads.mix.share: "none" is not a whole number (valid: 1 to 1000)`,
		},
		{
			"shares", head + "workloads:\n  - mix: [{udp-rr: , share: [1, 2]}, tcp-stream]\n",
			`f.yaml:5:29: workloads.mix.share is a list (valid: a value such as 3)`,
		},
		{
			"share alone", head + "workloads:\n  - mix: [{share: 1}, tcp-stream]\n",
			`f.yaml:5:11: workloads.mix is a map without a name (valid: the name of a workload, or {NAME: {parameter: value}})`,
		},
		{
			"unknown member", head + "workloads:\n  - mix: [udp-rx, tcp-stream]\n",
			`f.yaml:5:11: unknown workload "udp-rx" (known: udp-rr, `,
		},
		{
			"parameter of a member", head + "workloads:\n  - mix: [{udp-rr: {mode: sleep}}, tcp-stream]\n",
			`f.yaml:5:27: workloads.mix.udp-rr.mode: invalid value "sleep" (valid: wait, spin)`,
		},
		{
			"driver of a member", head + "workloads:\n  - mix: [{udp-rr: {driver: netperf}}, tcp-stream]\n",
			`f.yaml:5:21: workloads.mix.udp-rr.driver: members of a mix need nettoll's own engine`,
		},
		{
			"placement of a member", head + "workloads:\n  - mix: [{udp-rr: {placement: same-host}}, tcp-stream]\n",
			`f.yaml:5:21: workloads.mix.udp-rr.placement: all members of a mix have the same placement`,
		},
		{
			"member with a time of its own", head + "workloads:\n  - mix: [udp-rr, tbench]\n",
			`f.yaml:5:19: tbench cannot be a member of a mix, because its programs choose their own measuring time`,
		},
		{
			"member twice", head + "workloads:\n  - mix: [udp-rr, {udp-rr: {payload: [32, 64]}}]\n",
			`f.yaml:5:5: udp-rr(payload=64,mode=wait) is in the mix twice: list it once with a larger share`,
		},
		{
			"bomb of a mix", head + "workloads:\n  - mix:\n" +
				strings.Repeat("    - udp-rr: {payload: [1, 2, 3, 4, 5, 6, 7]}\n", 8),
			`f.yaml:5:5: too many combinations of the members' parameters: 2401 (limit 2000)`,
		},
		{"bomb of parameters", head + "workloads:\n  - udp-rr: {payload: [" + manyNumbers(50) + "], in-flight: [" +
			manyNumbers(50) + "]}\n", `f.yaml:5:216: workloads.udp-rr: too many combinations of parameters: 2500 (limit 2000)`},
		{
			"wrong unit", head + "workloads: udp-rr\ndesign: {time: 60 parsecs}\n",
			`f.yaml:5:16: design.time: invalid duration "60 parsecs" (valid: numbers with the units ms, s, m and h, such as 500ms, 30s or 1m30s; at most 168h)`,
		},
		{"no unit", head + "workloads: udp-rr\ndesign: {time: 60}\n", `f.yaml:5:16: design.time: invalid duration "60"`},
		{
			"size", head + "workloads: {udp-rr: {payload: 28 bits}}\n",
			`f.yaml:4:31: workloads.udp-rr.payload: invalid size "28 bits" (valid: bytes such as 64, 64B, 128KiB or 1MB, at most 1GiB)`,
		},
		{
			"negative", head + "  pairs: -1\nworkloads: udp-rr\n",
			`f.yaml:4:10: factors.pairs: -1 is out of range (valid: 1 to 500)`,
		},
		{
			"zero", head + "workloads: udp-rr\ndesign: {precision: 0}\n",
			`f.yaml:5:21: design.precision: "0" is out of range (valid: more than 0 and less than 100%, such as 2% or 0.02)`,
		},
		{
			"zero time", head + "workloads: udp-rr\ndesign: {time: 0s}\n",
			`f.yaml:5:16: design.time: "0s" is out of range (valid: 1ms to 168h)`,
		},
		{
			"absurd", head + "  pairs: 99999999999999999999\nworkloads: udp-rr\n",
			`f.yaml:4:10: factors.pairs: "99999999999999999999" is not a whole number (valid: 1 to 500)`,
		},
		{
			"absurd hosts", head + "workloads: udp-rr\nhosts: 1000\n",
			`f.yaml:5:8: hosts: 1000 is out of range (valid: 2 to 16)`,
		},
		{
			"fraction", head + "  pairs: 1.5\nworkloads: udp-rr\n",
			`f.yaml:4:10: factors.pairs: "1.5" is not a whole number (valid: 1 to 500)`,
		},
		{
			"not a number", head + "workloads: udp-rr\ndesign: {precision: .nan}\n",
			`f.yaml:5:21: design.precision: invalid share ".nan" (valid: 2% or 0.02)`,
		},
		{
			"infinity", head + "workloads: udp-rr\ndesign: {precision: inf%}\n",
			`f.yaml:5:21: design.precision: "inf%" is out of range`,
		},
		{
			"few generations", head + "workloads: udp-rr\ndesign: {generations: 3}\n",
			`f.yaml:5:23: design.generations: 3 is out of range (valid: 5 to 1000)`,
		},
		{
			"mtu", head + "workloads: udp-rr\ntune: {mtu: 100}\n",
			`f.yaml:5:13: tune.mtu: "100" is out of range (valid: 1280 to 65535 bytes)`,
		},
		{
			"rate of the underlay", head + "workloads: udp-rr\nunderlay: {rate: fast}\n",
			`f.yaml:5:18: underlay.rate: invalid bit rate "fast" (valid: values such as 500kbit/s, 50Mbit/s or 1Gbit/s)`,
		},
		{
			"slow underlay", head + "workloads: udp-rr\nunderlay: {rate: 1kbit/s}\n",
			`f.yaml:5:18: underlay.rate: "1kbit/s" is out of range (valid: 64kbit/s to 1000Gbit/s)`,
		},
		{
			"delay of the underlay", head + "workloads: udp-rr\nunderlay: {delay: 1m}\n",
			`f.yaml:5:19: underlay.delay: "1m" is out of range (valid: 1µs to 10s)`,
		},
		{
			"loss of the underlay", head + "workloads: udp-rr\nunderlay: {loss: 100%}\n",
			`f.yaml:5:18: underlay.loss: "100%" is out of range`,
		},
		{
			"MTU of the underlay", head + "workloads: udp-rr\nunderlay: {mtu: 100}\n",
			`f.yaml:5:17: underlay.mtu: "100" is out of range (valid: 1280 to 65535 bytes)`,
		},
		{
			"kind of hosts", head + "workloads: udp-rr\nhosts: {kind: cloud, count: 2}\n",
			`f.yaml:5:15: unknown kind "cloud" (known: local, kubernetes)`,
		},
		{
			"context of this machine", head + "workloads: udp-rr\nhosts: {kind: local, count: 2, context: kind}\n",
			`f.yaml:5:41: hosts.context: only hosts of kind kubernetes have one`,
		},
		{
			"network of this machine on a cluster", "hosts: {kind: kubernetes, nodes: 2}\n" + head + "workloads: udp-rr\n",
			`f.yaml:4:12: unknown network "bridge" (known: host, cni)`,
		},
		{
			"MTU on a cluster",
			"hosts: {kind: kubernetes, nodes: 2}\nfactors: {network: cni}\nworkloads: udp-rr\ntune: {mtu: 9000}\n",
			`f.yaml:4:8: mtu: the pods of a cluster have the MTU that its network plugin gives them`,
		},
		{
			"underlay of a cluster",
			"hosts: {kind: kubernetes, nodes: 2}\nfactors: {network: cni}\nworkloads: udp-rr\nunderlay: {loss: 1%}\n",
			`f.yaml:4:1: underlay: the nodes of a cluster have a network of their own`,
		},
		{
			"spaces in a context", "hosts: {kind: kubernetes, nodes: 2, context: a b}\nfactors: {network: cni}\nworkloads: udp-rr\n",
			`f.yaml:1:46: hosts.context: invalid name "a b" (valid: a name without spaces)`,
		},
		{
			"a monitor of something", "hosts: {kind: kubernetes, nodes: 2, monitor: pods}\nfactors: {network: cni}\nworkloads: udp-rr\n",
			`f.yaml:1:46: unknown monitor "pods" (known: nodes, wire, none)`,
		},
		{
			"a monitor of this machine", head + "workloads: udp-rr\nhosts: {kind: local, nodes: 2, monitor: nodes}\n",
			`f.yaml:5:41: hosts.monitor: only hosts of kind kubernetes have one`,
		},
		{
			"no number of nodes", "hosts: {kind: kubernetes}\nfactors: {network: cni}\nworkloads: udp-rr\n",
			`f.yaml:1:8: hosts: missing key "count" (number of hosts)`,
		},
		{
			"hosts as a list", head + "workloads: udp-rr\nhosts: [2]\n",
			`f.yaml:5:8: hosts lists 1 (valid: 2 to 8)`,
		},
		{
			"clusters with one name", "hosts:\n- {kind: kubernetes, nodes: 2, context: a}\n" +
				"- {kind: kubernetes, nodes: 2, context: b, name: a}\nfactors: {network: cni}\nworkloads: udp-rr\n",
			`f.yaml:3:3: hosts: two clusters have the name "a" (first at line 2)`,
		},
		{
			"one cluster twice", "hosts:\n- {kind: kubernetes, nodes: 2, context: a}\n" +
				"- {kind: kubernetes, nodes: 2, context: a, name: b}\nfactors: {network: cni}\nworkloads: udp-rr\n",
			`f.yaml:3:3: hosts: two clusters have the context "a" (first at line 2)`,
		},
		{
			"clusters with different numbers of nodes", "hosts:\n- {kind: kubernetes, nodes: 2, context: a}\n" +
				"- {kind: kubernetes, nodes: 3, context: b}\nfactors: {network: cni}\nworkloads: udp-rr\n",
			`f.yaml:3:3: hosts: a cluster with 3 nodes beside one with 2 (valid: equally many)`,
		},
		{
			"a cluster without its context", "hosts:\n- {kind: kubernetes, nodes: 2, context: a}\n" +
				"- {kind: kubernetes, nodes: 2}\nfactors: {network: cni}\nworkloads: udp-rr\n",
			`f.yaml:3:3: hosts: missing key "context"`,
		},
		{
			"hosts of this machine beside a cluster", "hosts:\n- {kind: kubernetes, nodes: 2, context: a}\n" +
				"- {kind: local, nodes: 2, context: b}\nfactors: {network: cni}\nworkloads: udp-rr\n",
			`f.yaml:3:10: unknown kind "local" (known: kubernetes)`,
		},
		{
			"another cluster", "hosts:\n- {kind: kubernetes, nodes: 2, context: a}\n- {kind: kubernetes, nodes: 2, context: b}\n" +
				"factors:\n  network: cni\n  runtime: {pod: {cluster: c}}\nworkloads: udp-rr\n",
			`f.yaml:6:3: unknown cluster "c" (known: a, b)`,
		},
		{
			"a cluster with a name where there is one", "hosts: {kind: kubernetes, nodes: 2, context: a}\n" +
				"factors:\n  network: cni\n  runtime: {pod: {cluster: a}}\nworkloads: udp-rr\n",
			`f.yaml:4:3: cluster "a": hosts lists no clusters with names`,
		},
		{
			"name", "name: ../../etc\n" + head[8:] + "workloads: udp-rr\n",
			`f.yaml:1:7: name: invalid name "../../etc" (valid: letters, digits, dots, hyphens and underscores, a letter or digit first)`,
		},
		{
			"duplicate stack", head +
				"stacks:\n  - {name: a, network: bridge}\n  - {name: a, network: bridge}\nworkloads: udp-rr\n",
			`f.yaml:6:12: stack "a" is already defined at line 5`,
		},
		{
			"stack called like one of the factors", head + "stacks:\n  - {name: bridge, network: host}\nworkloads: udp-rr\n",
			`f.yaml:5:12: stack "bridge" is already defined as a stack of the factors at line 3`,
		},
		{
			"stack without a name", head + "stacks:\n  - {network: bridge}\nworkloads: udp-rr\n",
			`f.yaml:5:5: stacks: missing key "name" (name of the stack in tables and ids)`,
		},
		{
			"stack of two", head + "stacks:\n  - {name: a, network: [bridge, host]}\nworkloads: udp-rr\n",
			`f.yaml:5:24: stacks.network is a list (valid: the name of a network, or {NAME: {parameter: value}})`,
		},
		{
			"two parts in one", "factors:\n  network:\n  - bridge:\n    host:\nworkloads: udp-rr\n",
			`f.yaml:4:5: factors.network: "host" and "bridge" in one entry (valid: one network per entry, with its parameters below it)`,
		},
		{
			"empty factor", "factors:\n  network: []\nworkloads: udp-rr\n",
			`f.yaml:2:12: factors.network is empty (valid: at least one: the name of a network, or {NAME: {parameter: value}})`,
		},
		{
			"empty parameter", head + "workloads:\n  - udp-rr: {mode: []}\n",
			`f.yaml:5:20: workloads.udp-rr.mode is empty (valid: at least one: a value such as wait)`,
		},
		{
			"twice in a factor", "factors:\n  network: [bridge, bridge]\nworkloads: udp-rr\n",
			`f.yaml:2:21: network bridge is listed twice (first at line 2)`,
		},
		{"twice in pairs", head + "  pairs: [1, 1]\nworkloads: udp-rr\n", `f.yaml:4:14: factors.pairs: "1" is listed twice`},
		{"a key twice", head + "workloads: udp-rr\nname: y\n", `f.yaml:5:1: key "name" is given twice (first at line 1)`},
		{"no workloads", head, `f.yaml:1:1: missing key "workloads" (traffic that the pairs exchange)`},
		{"workloads without value", head + "workloads:\n", `f.yaml:4:1: workloads is empty (valid: `},
		{
			"nothing to compare", "baseline: {network: bridge}\nfactors: {network: bridge}\nworkloads: udp-rr\n",
			`f.yaml:2:11: no stack to compare with the baseline bridge: factors and stacks name no other (networks: host, bridge`,
		},
		{
			"only a baseline", "baseline: {network: host}\nworkloads: udp-rr\n",
			`f.yaml:1:1: no stack to compare with the baseline host`,
		},
		{
			"not a map", "- a\n- b\n",
			`f.yaml:1:1: an experiment is a list (valid: a map with name, hosts, baseline, factors, stacks, workloads, design, tune, proof, underlay)`,
		},
		{"a word", "hello\n", `f.yaml:1:1: an experiment is a single value (valid: a map with name`},
		{
			"several documents", head + "workloads: udp-rr\n---\nname: y\n",
			`f.yaml:6:1: a second document begins here (a file holds one experiment)`,
		},
		{"nothing", "", `f.yaml: the file is empty (nettoll init writes an experiment to start from)`},
		{"comments", "# nothing\n", `f.yaml: the file is empty (nettoll init writes an experiment to start from)`},
		{"garbage", strings.Repeat("\x9f\x12garbage", 100_000), `f.yaml: too large: 900 kB (limit 256 KiB)`},
		{"many lines", strings.Repeat("a: b\n", 50_000), `f.yaml: too long: 50000 lines (limit 3000)`},
		{"a long word", strings.Repeat("a:", 100_000), `f.yaml:1:1: the value is too long: 199999 characters (limit 1000)`},
		{
			"a long block", head + "workloads:\n  - udp-rr:\n      payload: >-\n        " + strings.Repeat("a b ", 300) + "\n",
			`f.yaml:6:16: the value is too long: 1199 characters (limit 1000)`,
		},
		{"less garbage", strings.Repeat("{x: ", 20_000), `f.yaml:1:161: too many nested brackets: 41 (limit 40)`},
		{"no text", "name: \xff\xfe\n", `f.yaml:1:7: invalid character: the byte 0xff (valid: UTF-8 text)`},
		{"escape", "name: \"x\\e[2J\"\n", `f.yaml:1:7: the control character U+001B in "x\x1b[2J" (valid: printable text)`},
		{
			"reversed", "name: x\nfactors:\n  network: [\"a\\u202eb\"]\n",
			`f.yaml:3:13: the control character U+202E in "a\u202eb" (valid: printable text)`,
		},
		{"NUL", "name: x\nfac\x00tors: y\n", `f.yaml:2:4: invalid character: a NUL byte (valid: UTF-8 text)`},
		{"tab", "factors:\n\tnetwork: bridge\n", `f.yaml:2:1: invalid indentation: a tab (valid: spaces)`},
		{
			"alias bomb", "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
			`f.yaml:1:4: anchors, aliases and merge keys are not supported (write the values out; a list crosses them)`,
		},
		{
			"merge key", "name: x\n<<: {a: b}\n",
			`f.yaml:2:1: anchors, aliases and merge keys are not supported (write the values out; a list crosses them)`,
		},
		{"tag", "name: !!binary x\n", `f.yaml:1:7: tags such as "!!binary" are not supported`},
		{"syntax", "name: [x\nfactors: {", `f.yaml:`},
		{"indentation", "factors:\n  network: bridge\n pairs: 1\n", `f.yaml:3:`},
		{"key that is none", "? [a]\n: b\n", `f.yaml:2:1: this is not YAML: `},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := experiment.Read("f.yaml", []byte(c.text), nil, catalogue.New().Parts())
			if err == nil {
				t.Fatalf("no error, and %+v", e)
			}
			if !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error\n  %v\nwant\n  %s", err, c.want)
			}
			checkError(t, e, err)
		})
	}
}

// manyNumbers returns 1, 2, 3, …
func manyNumbers(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(i + 1)
	}
	return strings.Join(list, ", ")
}

// checkError checks that an error has one line and an excerpt of at most five, and that no experiment is returned with
// it.
func checkError(t *testing.T, e experiment.Experiment, err error) {
	t.Helper()
	placed, ok := errors.AsType[*experiment.Error](err)
	if !ok {
		t.Fatalf("%T, want an Error with a place: %v", err, err)
	}
	lines := append([]string{err.Error()}, placed.Excerpt()...)
	if len(lines) > 6 {
		t.Errorf("%d lines, want at most 6:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for _, l := range lines {
		if strings.ContainsAny(l, "\n\r\x00\x1b\t") {
			t.Errorf("line %q holds what moves a terminal", l)
		}
	}
	if cmp.Diff(experiment.Experiment{}, e) != "" {
		t.Errorf("an error and an experiment: %+v", e)
	}
}

func TestExcerpt(t *testing.T) {
	_, err := experiment.Read("f.yaml",
		[]byte("name: x\r\n# µ\x1b[31m\nfactors:\n  network: [bridge, µµ, brigde]\nworkloads: udp-rr\nhosts: 2\n"), nil,
		catalogue.New().Parts())
	var placed *experiment.Error
	if !errors.As(err, &placed) {
		t.Fatal(err)
	}
	want := []string{
		"2 | # µ\uFFFD[31m", "3 | factors:", "4 |   network: [bridge, µµ, brigde]",
		"  |                     ^", "5 | workloads: udp-rr",
	}
	if diff := cmp.Diff(want, placed.Excerpt()); diff != "" {
		t.Errorf("excerpt (-want +got):\n%s", diff)
	}
}

// Values from the command line are checked like those of a file, and errors name the flag.
func TestSettings(t *testing.T) {
	text := head + "workloads:\n  - udp-rr: {payload: 28B}\ndesign: {time: 5s}\n"
	set := func(flag, path, value string) experiment.Setting {
		return experiment.Setting{Flag: flag, Path: path, Value: value}
	}
	e, err := experiment.Read("f.yaml", []byte(text), []experiment.Setting{
		set("--time", "design.time", `"30s"`), set("--set", "factors.pairs", "[1, 10]"),
		set("--set", "workloads.0.udp-rr.payload", "1KiB"),
		set("--set", "tune.mtu", "9000"), set("--spoiled", "design.spoiled", "0"),
		set("--set", "underlay", "{rate: 1Gbit, delay: 1ms, loss: 0.5%, mtu: 9050}"),
	}, catalogue.New().Parts())
	if err != nil {
		t.Fatal(err)
	}
	if e.Design.Time != 30*time.Second || cmp.Diff([]int{1, 10}, e.Factors.Pairs) != "" ||
		e.Workloads[0].Params["payload"] != "1024" || e.Tune.MTU != 9000 || e.Design.Spoiled != 0 {
		t.Errorf("%+v", e)
	}
	if e.Underlay.String() != "1000 Mbit/s, delay 1ms, loss 0.5 %, MTU 9050" {
		t.Errorf("the underlay is %q", e.Underlay)
	}
	if want := "#   factors.pairs: [1, 10]\n"; !strings.Contains(e.Source, want) {
		t.Errorf("source %q, want %q in it", e.Source, want)
	}
	again, err := experiment.Read("pasted", []byte(e.Source), nil, catalogue.New().Parts())
	if err != nil {
		t.Fatalf("what the page shows cannot be run: %v\n%s", err, e.Source)
	}
	if diff := cmp.Diff(asJSON(t, e), asJSON(t, again)); diff != "" {
		t.Errorf("what the page shows is another experiment (-run +pasted):\n%s\n%s", diff, e.Source)
	}
	for _, c := range []struct {
		setting experiment.Setting
		want    string
	}{
		{set("--spoiled", "design.spoiled", "100%"), `--spoiled: design.spoiled: "100%" is out of range`},
		{set("--time", "design.time", `"30"`), `--time: design.time: invalid duration "30"`},
		{
			set("--set", "design.tme", "1s"),
			`--set design.tme=1s: unknown key "tme" in design (known: precision, until, margin, spoiled, time, generations, trial, seed, probe); did you mean time?`,
		},
		{
			set("--set", "workloads.3.udp-rr.payload", "1"),
			`--set workloads.3.udp-rr.payload=1: "3" is not an item of workloads (valid: 0 to 0)`,
		},
		{set("--set", "a..b", "1"), `--set a..b=1: invalid path "a..b"`},
		{set("--set", "name", ""), `--set name=: the value is empty`},
		{set("--set", "name", "[a"), `--set name=[a:`},
		{set("--set", "name", "*a"), `--set name=*a:`},
		{set("--network", "factors.network", `["brdge"]`), `--network: unknown network "brdge" (known: host, bridge`},
	} {
		e, err := experiment.Read("f.yaml", []byte(text), []experiment.Setting{c.setting}, catalogue.New().Parts())
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %s", c.setting, err, c.want)
			continue
		}
		checkError(t, e, err)
	}
}

// Values that the file does not have are those of Base.
func TestReadDefaults(t *testing.T) {
	e := read(t, "factors: {network: bridge}\nworkloads: udp-rr\n")
	want := experiment.Base(catalogue.New().Parts())
	want.Factors.Parts = []stack.Stack{{choose(t, "network", "bridge", nil)}}
	want.Workloads = []experiment.Load{{Choice: experiment.Choice{Name: "udp-rr", Params: map[string]string{}}}}
	want.Source = e.Source
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A byte order mark is not part of the text. on and off stand for true and false wherever one of those is valid.
func TestReadLeniently(t *testing.T) {
	plain := read(t, "factors:\n  network: [{nat: {hairpin: true}}, {bridge: {hairpin: on}}]\nworkloads: {tcp-stream: "+
		"{nodelay: false}}\n")
	other := read(t, "\ufefffactors:\n  network: [{nat: {hairpin: on}}, {bridge: {hairpin: true}}]\nworkloads: "+
		"{tcp-stream: {nodelay: off}}\n")
	plain.Source, other.Source = "", ""
	if diff := cmp.Diff(plain, other); diff != "" {
		t.Errorf("(-plain +other):\n%s", diff)
	}
}

// FuzzRead checks that the result is an experiment or an error, never both, and that nothing panics. An experiment can
// be expanded, or the error says why not.
func FuzzRead(f *testing.F) {
	all, err := experiment.Examples()
	if err != nil {
		f.Fatal(err)
	}
	for _, x := range all {
		f.Add(x.Text, "design.time", "3s")
	}
	for _, s := range []string{
		head, "a: &a [*a]", "? a\n: b", "- - - -", "{[", "|\n x", "%YAML 1.2\n---\n", "a: !!float 1", "\"\\x00\": 1",
		"a: b: c", neighbour, "a:\n- b\n -c", "---\n...\n---", ": ",
	} {
		f.Add([]byte(s), "a.0.b", s)
	}
	parts := catalogue.New().Parts()
	f.Fuzz(func(t *testing.T, text []byte, path, value string) {
		for _, settings := range [][]experiment.Setting{nil, {{Flag: "--set", Path: path, Value: value}}} {
			e, err := experiment.Read("f.yaml", text, settings, parts)
			if err != nil {
				checkError(t, e, err)
				continue
			}
			if r, err := experiment.Resolve(e, parts, 2); (r == nil) == (err == nil) {
				t.Fatalf("resolved to %v and %v", r, err)
			}
		}
	})
}

func ExampleError() {
	_, err := experiment.Read("my.yaml", []byte("factors: {network: brigde}\n"), nil, catalogue.New().Parts())
	if placed, ok := errors.AsType[*experiment.Error](err); ok {
		fmt.Println(placed.Line, placed.Column)
		fmt.Println(placed.Excerpt()[1])
	}
	// Output:
	// 1 20
	//   |                    ^
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// For every experiment that comes with nettoll and every change from the command line, the text on the page resolves to
// the same cells.
func TestEffectiveIsTheSame(t *testing.T) {
	parts := catalogue.New().Parts()
	examples, err := experiment.Examples()
	if err != nil {
		t.Fatal(err)
	}
	odd := `"a b: #c"`
	for _, x := range examples {
		for _, s := range [][2]string{
			{"design.time", "25s"},
			{"factors.placement", "[same-host]"},
			{"design.seed", "7"},
			{"tune.mtu", "1400"},
			{"stacks", "[{name: " + odd + ", network: bridge}]"},
			{"stacks", "[{name: one, network: bridge}]"},
		} {
			settings := []experiment.Setting{{Flag: "--set", Path: s[0], Value: s[1]}}
			e, err := experiment.Read(x.Name, x.Text, settings, parts)
			if err != nil { // for example, a name that is not valid
				continue
			}
			again, err := experiment.Read("pasted", []byte(e.Source), nil, parts)
			if err != nil {
				t.Errorf("%s with %q: %v\n%s", x.Name, s, err, e.Source)
				continue
			}
			r, err := experiment.Resolve(e, parts, 4)
			if err != nil {
				t.Fatal(err)
			}
			pasted, err := experiment.Resolve(again, parts, 4)
			if err != nil {
				t.Fatal(err)
			}
			var cells, same []string
			for _, c := range r.Cells {
				cells = append(cells, fmt.Sprint(c.ID, c.Trial))
			}
			for _, c := range pasted.Cells {
				same = append(same, fmt.Sprint(c.ID, c.Trial))
			}
			if diff := cmp.Diff(cells, same); diff != "" || len(cells) == 0 {
				t.Errorf("%s with %q (-run +pasted):\n%s", x.Name, s, diff)
			}
		}
	}
}
