package control

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/measure"
)

// talking is a lab whose program has said something.
type talking struct{ deploy.Lab }

func (talking) Logs(context.Context) ([]deploy.Log, error) {
	return []deploy.Log{{Host: "host1", Program: "switch", Text: "said\n"}}, nil
}

// Logs and frames of a lab are not written through links that are in the run directory already.
func TestKeepsFollowNoLinks(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	for file, name := range map[string]string{"logs": "1-lab-host1-switch.log", "pcap": "1-lab-before.pcapng"} {
		if err := os.Mkdir(filepath.Join(dir, file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(dir, file, name)); err != nil {
			t.Fatal(err)
		}
	}
	s, g := &scheduler{options: Options{Dir: dir}}, &generation{number: firstGeneration}
	l := &lab{Lab: experiment.Lab{ID: "lab"}, generation: g, stands: talking{}}
	l.capture = &host.Capture{PCAPNG: []byte("frames")}
	for range 2 { // the lab is built again
		if err := s.keepLogs(t.Context(), g, l); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.keepFrames(l, "before", nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"logs/1-lab-host1-switch.log": "said\nsaid\n", "pcap/1-lab-before.pcapng": "frames",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, want %q (%v)", name, got, want, err)
		}
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("a link was followed")
	}
}

// Of several hosts a lab tells the worst: rates are not times.
func TestWorse(t *testing.T) {
	for _, c := range []struct {
		metric string
		want   float64
	}{{"rules_load_time", 2}, {"rules_memory", 2}, {"translation_rate", 1}, {"of_a_newer_nettoll", 2}} {
		m, _ := measure.Version2().Lookup(c.metric)
		if a, b := worse(m, 1, 2), worse(m, 2, 1); a != c.want || b != c.want {
			t.Errorf("of 1 and 2 %s tells %g and %g, want %g", c.metric, a, b, c.want)
		}
	}
}
