package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
)

// slow is a host whose plans take a moment.
type slow struct {
	name   string
	record *record
	fails  error
}

// record is the order in which hosts applied plans, and the largest number that did so at the same time.
type record struct {
	mu        sync.Mutex
	list      []string
	now, most int
}

func (r *record) note(what string, change int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, what)
	r.now += change
	r.most = max(r.most, r.now)
}

func (s slow) Name() string { return s.name }

func (s slow) Apply(ctx context.Context, _ host.Plan) error {
	s.record.note("begin "+s.name, 1)
	defer s.record.note("end "+s.name, -1)
	if s.fails != nil {
		return s.fails
	}
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Hosts that do not depend on each other are built at the same time, after the underlay; if the cost of loading is
// measured, one by one. The first error ends it.
func TestHostsAreBuiltInWaves(t *testing.T) {
	const hosts = 3
	failure := errors.New("no")
	for _, c := range []struct {
		name     string
		oneByOne bool
		fails    bool
		most     int
	}{
		{"at the same time", false, false, hosts}, {"one by one", true, false, 1}, {"one fails", false, true, hosts},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &record{}
			var all []configured
			var plans []host.Plan
			var underlay host.Plan
			for i := range hosts {
				h := slow{name: fmt.Sprintf("host%d", i+1), record: r}
				if c.fails && i == 0 {
					h.fails = failure
				}
				all, plans = append(all, h), append(plans, host.Plan{})
				underlay.Steps = append(underlay.Steps, host.Veth{Name: "v", PeerNS: "@" + h.name, PeerName: "up0"})
			}
			all, plans = append(all, slow{name: "underlay", record: r}), append(plans, underlay)
			err := apply(t.Context(), all, plans, c.oneByOne)
			if c.fails != errors.Is(err, failure) || !c.fails && err != nil {
				t.Errorf("apply = %v", err)
			}
			if !slices.Equal(r.list[:2], []string{"begin underlay", "end underlay"}) {
				t.Errorf("it begins with %q, want the underlay alone", r.list[:2])
			}
			if !c.fails && len(r.list) != 2*(hosts+1) {
				t.Errorf("it went %q", r.list)
			}
			if r.most > c.most || !c.fails && r.most != c.most {
				t.Errorf("%d hosts at the same time, want %d", r.most, c.most)
			}
		})
	}
}
