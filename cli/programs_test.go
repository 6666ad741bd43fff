package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/experiment"
)

// without returns a deployment whose hosts have no programs. They are one machine: as with namespaces, no host is named.
func without() deploy.Deployment {
	return &labtest.Fake{Installed: func(int, string) string { return "" }}
}

// resolveText resolves an experiment with these workloads.
func resolveText(t *testing.T, workloads ...string) (library, *experiment.Resolved) {
	t.Helper()
	l := library{catalogue.New()}
	text := "name: some\nbaseline: {network: host}\nfactors: {network: [bridge], placement: [same-host], pairs: " +
		"[2]}\nworkloads:\n  - " + strings.Join(workloads, "\n  - ") + "\n"
	e, err := experiment.Read("some", []byte(text), nil, l.catalogue.Parts())
	if err != nil {
		t.Fatal(err)
	}
	r, err := experiment.Resolve(e, l.catalogue.Parts(), 2)
	if err != nil {
		t.Fatal(err)
	}
	return l, r
}

// If programs are missing, workloads that need none are measured. The others are left out, each by its name.
func TestLackingPrograms(t *testing.T) {
	l, r := resolveText(t, "udp-rr", "kv: {server: redis}", "kv", "http: {driver: wrk}", "command",
		"mix: [{kv: {server: redis}}, {tcp-stream: {}}]")
	can, found, lacking, err := l.lacking(t.Context(), r, without(), build{})
	if err != nil {
		t.Fatal(err)
	}
	const missing = "not supported here: missing program "
	want := []experiment.Omission{
		{What: "kv(payload=1024,operation=get,clients=50,server=redis)", Reason: "use kv with server redis: " + missing +
			`"redis-server" (hint: apt-get install redis-server)`},
		{What: "http(payload=615,connection=keep-alive)", Reason: "use driver wrk: " + missing +
			`"wrk" (hint: apt-get install wrk)`},
		{What: "command(name=ping,metric=latency_mean)", Reason: "use command ping: " + missing +
			`"ping" (hint: install it, or name its path)`},
		{
			What:   "mix(kv(payload=1024,operation=get,clients=50,server=redis)*1,tcp-stream(message=131072)*1)",
			Reason: "use kv with server redis: " + missing + `"redis-server" (hint: apt-get install redis-server)`,
		},
	}
	if diff := cmp.Diff(want, lacking); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, can.Omitted); diff != "" {
		t.Errorf("of what is measured, left out (-want +got):\n%s", diff)
	}
	var names []string
	for _, c := range can.Cells {
		if c.Baseline == "" {
			names = append(names, c.ID)
		}
	}
	if diff := cmp.Diff([]string{
		"host/same-host/2/udp-rr(payload=64,mode=wait)", "host/same-host/2/kv(payload=1024,operation=get,clients=50)",
	}, names); diff != "" {
		t.Errorf("baselines that are measured (-want +got):\n%s", diff)
	}
	if len(found) != 1 || found["nettoll"] == "" {
		t.Errorf("versions of %v, want that of nettoll alone", found)
	}
}

// If nothing is left, the run ends before anything is built, and the error gives each reason once.
func TestNothingButLackingPrograms(t *testing.T) {
	// tbench has one port, but the host has two pairs: again nothing is left
	for _, also := range []string{"http: {driver: wrk}", "tbench"} {
		l, r := resolveText(t, "kv: {server: redis, payload: [64, 1KiB]}", also)
		_, _, _, err := l.lacking(t.Context(), r, without(), build{})
		if err == nil || strings.Count(err.Error(), `"redis-server"`) != 1 ||
			!strings.Contains(err.Error(), strings.Trim(also[len(also)-4:], " }")) {
			t.Errorf("%v: want redis-server once, and a word of %s", err, also)
		}
	}
}

// An experiment that needs no program is returned unchanged.
func TestLackingNothing(t *testing.T) {
	l, r := resolveText(t, "udp-rr")
	can, _, lacking, err := l.lacking(t.Context(), r, without(), build{})
	if err != nil || can != r || lacking != nil {
		t.Errorf("%p, left out %v, %v: want %p as it was", can, lacking, err, r)
	}
}
