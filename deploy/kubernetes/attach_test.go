package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/network"
	pods "github.com/nettoll/nettoll/pod"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/worker"
)

// What cannot be attached to is known before there are pods: from a cluster without the kind, or without the object.
// Who may not read the object tries.
func TestFindDefinition(t *testing.T) {
	const kind = "/apis/k8s.cni.cncf.io/v1"
	const one = kind + "/namespaces/lab/network-attachment-definitions/fast"
	status := func(code int) error { return &kubectl.StatusError{Code: code, Message: "refused"} }
	for _, tt := range []struct {
		name       string
		object, of error // of the definition, and of its kind
		config     string
		said, fail string
		missing    bool
	}{
		{name: "a plugin", config: `{"type": "macvlan", "ipam": {"type": "host-local"}}`, said: "macvlan with host-local"},
		{name: "no addresses", config: `{"type": "bridge"}`, said: "bridge"},
		{
			name:   "a list",
			config: `{"plugins": [{"type": "bridge", "ipam": {"type": "whereabouts"}}, {"type": "tuning"}]}`,
			said:   "bridge+tuning with whereabouts",
		},
		{name: "a file", config: "", said: "in a file of each node"},
		{name: "nonsense", config: "{", said: "not readable"},
		{name: "no right", object: status(http.StatusForbidden)},
		{
			name: "no object", object: status(http.StatusNotFound), missing: true,
			fail: `missing NetworkAttachmentDefinition "fast" in namespace "lab"`,
		},
		{
			name: "no kind", object: status(http.StatusNotFound), of: status(http.StatusNotFound), missing: true,
			fail: "missing kind NetworkAttachmentDefinition in the cluster (hint: install Multus",
		},
		{name: "no server", object: errors.New("it is away"), fail: `give pods a second interface by "lab/fast": it is away`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said, err := findDefinition(t.Context(), func(_ context.Context, path string, into any) error {
				switch path {
				case one:
					if d, ok := into.(*definition); ok {
						d.Spec.Config = tt.config
					}
					return tt.object
				case kind:
					return tt.of
				}
				t.Errorf("asked for %s", path)
				return nil
			}, "lab/fast")
			_, missing := errors.AsType[*linux.UnsupportedError](err)
			if said != tt.said || (err == nil) != (tt.fail == "") || missing != tt.missing ||
				err != nil && !strings.Contains(err.Error(), tt.fail) {
				t.Errorf("%q, %v; want %q, error %q", said, err, tt.said, tt.fail)
			}
		})
	}
}

// Only a stack with a second interface has its pods ask for one.
func TestAsks(t *testing.T) {
	for id, want := range map[string]string{"host": "", "cni": "", "cni(secondary=lab/fast)": "lab/fast"} {
		s, err := pods.Kinds().Parse(id)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(jobSpec{name: "j", attach: attachedTo(s)}.objects()[0])
		if err != nil {
			t.Fatal(err)
		}
		var job struct {
			Spec struct {
				Template pod `json:"template"`
			} `json:"spec"`
		}
		if err := json.Unmarshal(text, &job); err != nil {
			t.Fatal(err)
		}
		meta := job.Spec.Template.Metadata
		if meta.Annotations["k8s.v1.cni.cncf.io/networks"] != want || (want == "") != (len(meta.Annotations) == 0) ||
			meta.Labels[jobLabel] != "j" {
			t.Errorf("%s: pods have the annotations %v and the labels %v", id, meta.Annotations, meta.Labels)
		}
	}
}

// A pod sends at the second interface that it got, and not at another one. What it did not get is named.
func TestEndpoint(t *testing.T) {
	with := func(status string) pod {
		p := read(t, up)
		p.Metadata.Annotations = map[string]string{"k8s.v1.cni.cncf.io/network-status": status}
		return p
	}
	const first = `{"name": "pods", "interface": "eth0", "ips": ["10.244.1.7"], "default": true}`
	for _, tt := range []struct{ name, status, v4, v6, fail string }{
		{
			name: "both families", status: `[` + first + `, {"name": "lab/other", "interface": "net1", "ips": ["10.9.0.1"]},
				{"name": "lab/fast", "interface": "net2", "ips": ["10.245.1.10", "fd00:10:245::1:10"], "mtu": 1400}]`,
			v4: "10.245.1.10", v6: "fd00:10:245::1:10",
		},
		{
			name: "as Multus 4.2.2 writes it", status: `[{ "name": "pods", "interface": "eth0", "ips": [ "10.244.1.4",
				"fd00:10:244:1::4" ], "mac": "fa:d0:ed:8c:c0:04", "default": true, "dns": {}, "gateway": [ "\u003cnil\u003e",
				"\u003cnil\u003e" ] },{ "name": "lab/fast", "interface": "net1", "ips": [ "10.245.1.10", "fd00:10:246::2" ],
				"mac": "12:e6:9d:d0:1f:e5", "dns": {} }]`,
			v4: "10.245.1.10", v6: "fd00:10:246::2",
		},
		{
			name: "one family", status: `[` + first + `, {"name": "lab/fast", "interface": "net1", "ips": ["10.245.1.10"]}]`,
			v4: "10.245.1.10", v6: "invalid IP",
		},
		{
			name: "a port beside it", status: `[{"name": "lab/fast", "interface": "net1", "ips": []},
				{"name": "lab/fast", "interface": "net2", "ips": ["10.245.1.10"]}]`,
			v4: "10.245.1.10", v6: "invalid IP",
		},
		{
			name: "of its own namespace", status: `[` + first + `, {"name": "fast", "ips": ["10.245.1.10"]}]`,
			v4: "10.245.1.10", v6: "invalid IP",
		},
		{name: "no Multus", fail: `pod "a" has no second interface: nothing has answered its annotation`},
		{
			name:   "it is the first one",
			status: `[{"name": "lab/fast", "interface": "eth0", "ips": ["10.1.1.1"], "default": true}]`,
			fail:   `pod "a" has no interface by "lab/fast"`,
		},
		{name: "another one", status: `[` + first + `]`, fail: `pod "a" has no interface by "lab/fast": its annotation`},
		{
			name: "no IPAM", status: `[` + first + `, {"name": "lab/fast", "interface": "net1"}]`,
			fail: `pod "a" has no address at its interface by "lab/fast" (hint: the configuration`,
		},
		{name: "nonsense", status: "{", fail: `pod "a": read its annotation k8s.v1.cni.cncf.io/network-status`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := with(tt.status)
			e, err := p.endpoint("lab/fast")
			if tt.fail != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fail) {
					t.Errorf("%+v, %v; want error %q", e, err, tt.fail)
				}
				return
			}
			if err != nil || e.IPv4.String() != tt.v4 || e.IPv6.String() != tt.v6 {
				t.Errorf("%+v, %v; want %s and %s", e, err, tt.v4, tt.v6)
			}
			if e, err := p.endpoint(""); err != nil || e.IPv4.String() != "10.244.1.7" {
				t.Errorf("of a stack without second interfaces: %+v, %v", e, err)
			}
			now := with(strings.Replace(tt.status, "10.245.1.10", "10.245.1.11", 1))
			if err := differs(p, &now); err == nil || !strings.Contains(err.Error(), `pod "a" had the networks`) {
				t.Errorf("with another second address: drift %v", err)
			}
		})
	}
}

// The link of an endpoint is that with its address.
func TestInner(t *testing.T) {
	at := func(text string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(text)} }
	links := []worker.Link{
		{Name: "lo", Addresses: at("127.0.0.1")},
		{Name: "eth0", Addresses: at("10.244.1.7")},
		{Name: "net1", Addresses: at("fd00::7")},
	}
	for text, want := range map[string]string{"10.244.1.7": "eth0", "fd00::7": "net1", "10.1.1.1": ""} {
		var e network.Endpoint
		if e.IPv4 = netip.MustParseAddr(text); e.IPv4.Is6() {
			e.IPv4, e.IPv6 = e.IPv6, e.IPv4
		}
		if got := innerOf(links, e); got != want {
			t.Errorf("%s is at %q, want %q", text, got, want)
		}
	}
}

// A family of the experiment that the second network has no addresses of is named with it.
func TestFamilyMissing(t *testing.T) {
	p := read(t, up)
	l := &lab{attach: "lab/fast", pods: [][]pod{{p}}, site: &network.Site{}}
	l.site.Endpoints = [][]network.Endpoint{{{Inner: "net1"}}}
	l.spec.Families = []string{"ipv6"}
	if err := l.talk(); err == nil || !strings.Contains(err.Error(),
		`pod "a" has no ipv6 address at net1, its interface by "lab/fast"`) {
		t.Error(err)
	}
}

// What definitions are is a fact, unless they are not there. Those that may not be read are named.
func TestDescribeDefinitions(t *testing.T) {
	get := func(_ context.Context, path string, into any) error {
		switch d, _ := into.(*definition); {
		case strings.HasSuffix(path, "/fast"):
			d.Spec.Config = `{"type": "macvlan"}`
		case strings.HasSuffix(path, "/hidden"):
			return &kubectl.StatusError{Code: http.StatusForbidden}
		default:
			return &kubectl.StatusError{Code: http.StatusNotFound}
		}
		return nil
	}
	got := describeDefinitions(t.Context(), get, []string{"a/hidden", "lab/fast", "lab/nosuch"})
	if diff := cmp.Diff([]string{"a/hidden", "lab/fast: macvlan"}, got); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[string]string{
		"cni": "", "cni(secondary=lab/fast)": "", "cni(secondary=lab/nosuch)": "kind NetworkAttachmentDefinition",
	} {
		s, err := pods.Kinds().Parse(id)
		if err != nil {
			t.Fatal(err)
		}
		err = attachable(t.Context(), get, s)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", id, err, want)
		}
	}
}

// What the interfaces of pods have counted has the names that ways have for it, by container. A worker that is lost
// leaves nothing told.
func TestTrace(t *testing.T) {
	answering := func(devices ...traffic.DeviceCount) *running {
		questions, ask := io.Pipe()
		heard, answer := io.Pipe()
		go func() {
			_ = protocol.Serve(t.Context(), questions, answer, protocol.Methods{
				worker.Devices: protocol.Method(func(context.Context, struct{}) ([]traffic.DeviceCount, error) {
					return devices, nil
				}),
			})
		}()
		r := &running{client: protocol.Dial(heard, ask, nil), done: make(chan struct{})}
		t.Cleanup(func() { _ = r.client.Close() })
		return r
	}
	named := func(name string) (p pod) {
		p.Metadata.Name = name
		return p
	}
	l := &lab{
		attach: "lab/fast", pods: [][]pod{{named("a")}, {named("b"), named("c")}},
		workers: map[string]*running{
			"a": answering(traffic.DeviceCount{Name: "net1", Sent: 100, Received: 90},
				traffic.DeviceCount{Name: "eth0", Sent: 3}),
			"b": answering(traffic.DeviceCount{Name: "net1", Received: 95}),
		},
	}
	l.spec.Net.Hosts = []network.Host{
		{Index: 1, Containers: []network.Container{{Name: "src0"}}},
		{Index: 2, Containers: []network.Container{{Name: "snk0"}, {Name: "snk1"}}},
	}
	traces, err := l.Trace(t.Context(), []host.Question{{}, {Links: []string{"src0"}}, {Links: []string{"snk0"}}})
	if err != nil || len(traces) != 3 {
		t.Fatalf("%+v, %v", traces, err)
	}
	for _, tt := range []struct {
		host int
		host.Counter
		want uint64
	}{
		{1, host.Sent("src0", "net1", ""), 100},
		{1, host.Received("src0", "net1", ""), 90},
		{1, host.Sent("src0", "eth0", ""), 3},
		{2, host.Received("snk0", "net1", ""), 95},
	} {
		if got, ok := traces[tt.host].Count(tt.Counter); !ok || got != tt.want {
			t.Errorf("host %d: %d %s, want %d", tt.host, got, tt.Counter, tt.want)
		}
	}
	lost := answering()
	_ = lost.client.Close()
	close(lost.done)
	lost.err = errors.New("it has ended")
	l.workers["a"] = lost
	if _, err := l.Trace(t.Context(), []host.Question{{}, {Links: []string{"src0"}}}); err == nil {
		t.Error("the worker of src0 is lost, and its pod was counted")
	}
	if _, err := (&lab{}).Trace(t.Context(), nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("pods without second interfaces: %v, want that it is not supported", err)
	}
}
