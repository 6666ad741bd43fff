package experiment_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
)

// Every cell except the twin occurs a second time, in the same lab and in a group of its own.
func TestProbe(t *testing.T) {
	const text = `
factors: {network: bridge, placement: same-host}
workloads: [udp-rr, tcp-stream]
`
	plain := resolve(t, read(t, text), 2)
	r := resolve(t, read(t, text+"design: {probe: softirq}\n"), 2)
	var want []string
	for _, load := range []string{"udp-rr(payload=64,mode=wait)", "tcp-stream(message=131072)"} {
		where := "/same-host/1/" + load
		want = append(want,
			"host"+where+" <  @ host/same-host/1", "host"+where+"#2 < host"+where+" @ host/same-host/1#2", "bridge"+where+
				" < host"+where+" @ bridge/same-host/1",
			"host"+where+"+softirq <  @ host/same-host/1", "bridge"+where+"+softirq < host"+where+
				"+softirq @ bridge/same-host/1")
	}
	if diff := cmp.Diff(want, ids(r)); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if len(r.Labs) != len(plain.Labs) || len(r.Groups()) != 2*len(plain.Groups()) {
		t.Errorf("%d labs and %d groups, without the probe %d and %d", len(r.Labs), len(r.Groups()), len(plain.Labs),
			len(plain.Groups()))
	}
	governing := 0
	for _, c := range r.Cells {
		if c.Governs() {
			governing++
		}
		if (c.Probe != "") != (c.Unprobed != "") || c.Probe != "" && c.ID != c.Unprobed+"+softirq" {
			t.Errorf("%s: probe %q of %q", c.ID, c.Probe, c.Unprobed)
		}
	}
	if governing != 2 {
		t.Errorf("%d cells govern when the run stops, want the two that are compared and not probed", governing)
	}
	with, without := r.Forecast(experiment.DefaultSpread), plain.Forecast(experiment.DefaultSpread)
	var probed int
	for _, c := range r.Cells {
		if c.Probe != "" {
			probed += int(c.Trial)
		}
	}
	if added := int(with.Block - without.Block); added <= probed || int(with.Probed) != added || without.Probed != 0 {
		t.Errorf("blocks take %v longer with the probe, by the forecast %v, and the trials alone %v",
			with.Block-without.Block, with.Probed, probed)
	}
}

func TestProbeErrors(t *testing.T) {
	e := read(t, "factors: {network: bridge}\nworkloads: [udp-rr]\ndesign: {probe: none}\n")
	if e.Design.Probe != "" {
		t.Errorf("none is %q", e.Design.Probe)
	}
	e.Design.Probe = "everything"
	_, err := experiment.Resolve(e, catalogue.New().Parts(), 2)
	u, ok := errors.AsType[*experiment.UnknownError](err)
	if !ok || u.Kind != "probe" || !cmp.Equal(u.Known, []string{"none", "softirq"}) {
		t.Errorf("got %v", err)
	}
}
