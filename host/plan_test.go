package host_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/host"
)

// every returns a plan with every kind of step and every field.
func every() host.Plan {
	return host.Plan{Steps: []host.Step{
		host.Namespace{Name: "src0"},
		host.Bridge{
			Name: "br0", MAC: "02:00:00:00:00:01", MTU: 1500, Snooping: true,
			Addresses: []string{"10.1.0.1/16", "fd00:10:1::1/64"},
		},
		host.Veth{
			NS: "@host1", Name: "vsrc0", MAC: "02:00:00:00:00:02", MTU: 1500, Master: "br0", PeerNS: "src0", PeerName: "eth0",
			PeerMAC:   "02:00:00:00:00:03",
			Addresses: []string{"192.0.2.1/24"}, PeerAddresses: []string{"10.1.1.0/16"},
		},
		host.Link{NS: "src0", Name: "lo", MAC: "02:00:00:00:00:04", MTU: 1500, Addresses: []string{"10.9.0.1/32"}, Up: true},
		host.Route{NS: "src0", To: "0.0.0.0/0", Via: "10.1.0.1", Dev: "eth0"},
		host.Sysctl{NS: "src0", Key: "net.ipv4.ip_forward", Value: "1", IfPresent: true},
	}}
}

func TestPlanString(t *testing.T) {
	want := `  1 namespace src0
  2 bridge br0 with 10.1.0.1/16, fd00:10:1::1/64, mac 02:00:00:00:00:01, mtu 1500, multicast snooping
  3 veth vsrc0 in @host1 with 192.0.2.1/24, mac 02:00:00:00:00:02, mtu 1500, port of br0; peer eth0 in src0 with 10.1.1.0/16, mac 02:00:00:00:00:03
  4 link lo in src0 with 10.9.0.1/32, mac 02:00:00:00:00:04, mtu 1500, up
  5 route to 0.0.0.0/0 via 10.1.0.1 through eth0 in src0
  6 sysctl net.ipv4.ip_forward=1 in src0, if this kernel has it
`
	if diff := cmp.Diff(want, every().String()); diff != "" {
		t.Errorf("plan as text (-want +got):\n%s", diff)
	}
}

func TestPlanRoundTrip(t *testing.T) {
	for name, want := range map[string]host.Plan{"every step": every(), "no step": {Steps: []host.Step{}}} {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := host.Decoder{Kinds: host.Steps()}.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("plan after a round trip (-want +got):\n%s", diff)
			}
		})
	}
}

// A journal that an earlier build left has the name plug for the step.
func TestDecodePlug(t *testing.T) {
	plan, err := host.Decoder{Kinds: host.Steps()}.Decode([]byte(
		`[{"kind":"plug","from_ns":"@machine","from":"eth1","ns":"src0","name":"eth0","mtu":1400}]`))
	want := host.MoveLink{FromNS: host.Machine, From: "eth1", NS: "src0", Name: "eth0", MTU: 1400}
	if diff := cmp.Diff(host.Plan{Steps: []host.Step{want}}, plan); err != nil || diff != "" {
		t.Errorf("%v; (-want +got):\n%s", err, diff)
	}
}

func TestDecodeErrors(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"no JSON":          {`[{`, "decode plan: "},
		"no list":          {`{}`, "decode plan: "},
		"not an object":    {`[3]`, "step 1: "},
		"no kind":          {`[{"name":"a"}]`, `step 1: missing key "kind"`},
		"kind of a number": {`[{"kind":3}]`, "step 1: kind: "},
		"unknown kind": {`[{"kind":"namespace","name":"a"},{"kind":"vlan"}]`, `step 2: unknown kind "vlan" (known: ` +
			strings.Join(slices.Sorted(maps.Keys(host.Steps())), ", ") + ")"},
		"unknown field":       {`[{"kind":"namespace","nome":"a"}]`, `step 1: namespace: json: unknown field "nome"`},
		"field of wrong type": {`[{"kind":"bridge","mtu":"1500"}]`, "step 1: bridge: "},
		"null":                {`[null]`, `step 1: missing key "kind"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := host.Decoder{Kinds: host.Steps()}.Decode([]byte(c.in))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Decode(%s) = %v, want an error with %q", c.in, err, c.want)
			}
		})
	}
}

// FuzzDecodePlan checks that a decoder returns an error or a plan that survives a round trip, and never panics.
func FuzzDecodePlan(f *testing.F) {
	data, err := json.Marshal(every())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	for _, s := range []string{
		"", "null", "[]", "[null]", `[{"kind":"veth"}]`, `[{"kind":"Veth"}]`, `[{"kind":"link","kind":"route"}]`,
	} {
		f.Add([]byte(s))
	}
	d := host.Decoder{Kinds: host.Steps()}
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := d.Decode(in)
		if err != nil {
			if len(p.Steps) > 0 {
				t.Fatalf("Decode gave an error (%v) and steps", err)
			}
			return
		}
		_ = p.String()
		out, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("encode what was decoded: %v", err)
		}
		again, err := d.Decode(out)
		if err != nil {
			t.Fatalf("decode %s: %v", out, err)
		}
		if diff := cmp.Diff(p, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("plan after a round trip (-first +second):\n%s", diff)
		}
	})
}
