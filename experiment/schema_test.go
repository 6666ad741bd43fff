package experiment_test

import (
	"bytes"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
)

// The schema and the decoder agree: each accepts and refuses the same files.
func TestSchema(t *testing.T) {
	parts := catalogue.New().Parts()
	text, err := experiment.Schema(parts)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("nettoll.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("nettoll.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, text string, good bool) {
		t.Helper()
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(plain(v)); (err == nil) != good {
			t.Errorf("the schema says %v of\n%s", err, text)
		}
		if _, err := experiment.Read("f.yaml", []byte(text), nil, parts); (err == nil) != good {
			t.Errorf("the decoder says %v of\n%s", err, text)
		}
	}
	examples, err := experiment.Examples()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range examples {
		check(t, string(x.Text), true)
	}
	for _, c := range []struct {
		good bool
		text string
	}{
		{true, "factors: {network: bridge}\nworkloads: udp-rr\n"},
		{true, "factors: {network: [bridge], pairs: 2, placement: same-host}\nworkloads: [udp-rr: {payload: [28B, 64], " +
			"mode: wait}]\n"},
		{true, "factors:\n  network:\n    bridge:\nworkloads:\n- udp-rr:\nhosts: {kind: local, count: 3}\n"},
		{true, "hosts: {kind: kubernetes, nodes: 2, context: kind}\nfactors: {network: cni}\nworkloads: udp-rr\n"},
		{true, "hosts: {kind: kubernetes, count: 2, image: a/b:c}\nfactors: {network: [host, cni]}\nworkloads: udp-rr\n"},
		{true, "hosts: {kind: kubernetes, nodes: 2, monitor: nodes}\nfactors: {network: cni}\nworkloads: udp-rr\n"},
		{false, "hosts: {kind: kubernetes, nodes: 2, monitor: all}\nfactors: {network: cni}\nworkloads: udp-rr\n"},
		{false, "hosts: {kind: kubernetes, context: kind}\nfactors: {network: cni}\nworkloads: udp-rr\n"},
		{true, "hosts: [{kind: kubernetes, nodes: 2, context: a}, {kind: kubernetes, nodes: 2, context: b, name: x}]\n" +
			"factors: {network: cni}\nworkloads: udp-rr\n"},
		{false, "hosts: [{kind: kubernetes, nodes: 2, context: a}, {kind: kubernetes, nodes: 2}]\n" +
			"factors: {network: cni}\nworkloads: udp-rr\n"},
		{false, "hosts: [{kind: kubernetes, nodes: 2, context: a}]\nfactors: {network: cni}\nworkloads: udp-rr\n"},
		{true, "stacks: [{name: a, network: bridge}]\nworkloads: udp-rr\ndesign: {trial: 100ms, precision: 0.05, time: " +
			"1m30s}\ntune: {mtu: 9000B}\n"},
		{true, neighbour},
		{true, "factors: {network: bridge}\nworkloads: [{mix: [udp-rr, {tcp-stream: , share: 3}], placement: same-host}, " +
			"udp-rr]\n"},
		{true, "factors: {network: {bridge: {hairpin: true}}}\nworkloads: udp-rr\n"},
		{true, "factors: {network: {bridge: {hairpin: [on, off]}}}\nworkloads: udp-rr\n"},
		{true, "factors: {network: {nat: {hairpin: on}}}\nworkloads: udp-rr\n"},
		{true, "factors: {network: {nat: {hairpin: [yes, no]}}}\nworkloads: udp-rr\n"},
		{false, "factors: {network: {nat: {hairpin: maybe}}}\nworkloads: udp-rr\n"},
		{true, "baseline: bridge+nftables(rules=10)\nfactors: {network: bridge}\nworkloads: udp-rr\n"},
		{true, "baseline: {network: bridge, mtu: 9000}\nfactors: {network: bridge}\nworkloads: udp-rr\n"},
		{true, "factors: {network: bridge, mtu: [1500, 9000B], congestion_control: [cubic, bbr]}\nworkloads: udp-rr\n"},
		{true, "factors: {network: bridge, congestion-control: bbr}\nworkloads: [tcp-rr: {congestion_control: reno}]\n"},
		{true, "stacks: [{name: a, network: bridge, mtu: 9000, congestion_control: bbr}]\nworkloads: udp-rr\n"},
		{false, "factors: {network: bridge, congestion_control: vegas}\nworkloads: udp-rr\n"},
		{false, "factors: {network: bridge, mtu: large}\nworkloads: udp-rr\n"},
		{false, "factors: {network: bridge}\nworkloads: [{mix: [udp-rr]}]\n"},
		{false, "factors: {network: bridge}\nworkloads: [{mix: [udp-rr, {tcp-stream: {driver: iperf3}}]}]\n"},
		{false, "factors: {network: bridge}\nworkloads: [{mix: [udp-rr, {tcp-stream: , share: half}]}]\n"},
		{false, "factors: {network: bridge}\nworkloads: [{mix: [udp-rr, {mix: [udp-rr, tcp-stream]}]}]\n"},
		{false, "factors: {network: bridge}\nworkloads: mix\n"},
		{false, "factors: {network: bridge}\n"},
		{false, "factors: {network: brigde}\nworkloads: udp-rr\n"},
		{false, "factors: {network: bridge}\nworkloads: udp-rr\nx: 1\n"},
		{false, "factors: {network: []}\nworkloads: udp-rr\n"},
		{false, "factors: {network: bridge}\nworkloads: [udp-rr: {paylod: 28}]\n"},
		{false, "factors: {network: bridge}\nworkloads: [udp-rr: {mode: sleep}]\n"},
		{false, "factors: {network: bridge, placement: there}\nworkloads: udp-rr\n"},
		{false, "factors: {network: bridge}\nworkloads: udp-rr\ndesign: {time: soon}\n"},
		{false, "stacks: [{network: bridge}]\nworkloads: udp-rr\n"},
	} {
		check(t, c.text, c.good)
	}
}

// plain converts values of the YAML library into values of JSON.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = plain(x)
		}
	case []any:
		for i, x := range v {
			v[i] = plain(x)
		}
	case uint64:
		return float64(v)
	case int64:
		return float64(v)
	}
	return v
}
