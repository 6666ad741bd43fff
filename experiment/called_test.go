package experiment_test

import (
	"testing"
	"time"
)

// Trials on a cluster are long enough for the calls that open them, and what counts begins later. Trials that are longer
// stay as they are.
func TestCalledTrial(t *testing.T) {
	for given, want := range map[string][2]time.Duration{
		"pairs: 1}\nworkloads: tcp-stream\n":                           {200 * time.Millisecond, 20 * time.Millisecond},
		"pairs: 15}\nworkloads: tcp-stream\n":                          {2100 * time.Millisecond, 20 * time.Millisecond},
		"pairs: 1}\nworkloads: tcp-stream\ndesign: {trial: 4s}\n":      {4 * time.Second, 20 * time.Millisecond},
		"pairs: 1}\nworkloads: udp-rr\ndesign: {trial: 4s}\n":          {4 * time.Second, 400 * time.Millisecond},
		"pairs: 15}\nworkloads: udp-rr\ndesign: {trial: 100ms}\n":      {2100 * time.Millisecond, 20 * time.Millisecond},
		"pairs: 1}\nworkloads: quake3\ndesign: {trial: 30s, time: 1h}": {30 * time.Second, 3 * time.Second},
	} {
		e := read(t, "hosts: {kind: kubernetes, nodes: 2}\nfactors: {network: cni, placement: cross-host, "+given)
		for _, c := range resolve(t, e, 64).Cells {
			if c.Trial != want[0] || c.Warm != want[1] {
				t.Errorf("%s: %s: %v, of which %v do not count; want %v", given, c.ID, c.Trial, c.Warm, want)
			}
		}
	}
}
