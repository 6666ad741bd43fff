package control

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime/netns"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/udprr"
)

// served is a workload whose sinks start the program "server".
type served struct{ udprr.Workload }

func (s served) Describe() workload.Description {
	d := s.Workload.Describe()
	d.Programs = func(_ part.Params, side workload.Side) []program.Needed {
		if side == workload.Source {
			return nil
		}
		return []program.Needed{{By: "served", Program: "server", Package: "servers"}}
	}
	return d
}

// drives is a driver with a client and a server.
type drives struct{ driver.Driver }

func (drives) Describe() driver.Description {
	return driver.Description{Name: "other", Program: "client", Server: "daemon", Package: "others"}
}

// Programs are asked of the host on which the side runs that starts them, and of no other. The controller's own host
// has none of these programs, and that does not matter. If a host lacks one, it is named.
func TestProgramsOfSides(t *testing.T) {
	// one pair on two hosts: its source is on host 1, its sink on host 2
	one := func(d driver.Driver) *experiment.Resolved {
		r := imagined(t, netns.Runtime{}, func(e *experiment.Experiment) { e.Factors.Pairs = []int{1} })
		for i := range r.Cells {
			r.Cells[i].Workload, r.Cells[i].Driver = served{}, d
		}
		return r
	}
	for _, c := range []struct {
		name     string
		resolved *experiment.Resolved
		has      map[string]string // versions by host and program
		asked    []string
		versions map[string]string
		lacks    string
	}{
		{
			name: "the sink's host has it", resolved: one(nil), has: map[string]string{"2 server": "7.0"},
			asked: []string{"2 server"}, versions: map[string]string{"server": "7.0"},
		},
		{
			name: "the source's host alone has it", resolved: one(nil), has: map[string]string{"1 server": "7.0"},
			asked: []string{"2 server"},
			lacks: `host "host2": use served: not supported here: missing program "server" (hint: apt-get install servers)`,
		},
		{
			name: "driver", resolved: one(drives{}), has: map[string]string{"1 client": "3.1", "2 daemon": "-"},
			asked: []string{"1 client", "2 daemon"}, versions: map[string]string{"other": "3.1"},
		},
		{
			name: "driver without a server", resolved: one(drives{}), has: map[string]string{"1 client": "3.1"},
			asked: []string{"1 client", "2 daemon"},
			lacks: `host "host2": use driver other: not supported here: missing program "daemon" (hint: apt-get install others)`,
		},
		{
			name: "another version on each host", resolved: func() *experiment.Resolved {
				r := imagined(t, netns.Runtime{}) // two pairs: a sink on each host
				for i := range r.Cells {
					r.Cells[i].Workload = served{}
				}
				return r
			}(),
			has: map[string]string{"1 server": "7.0", "2 server": "7.2"}, asked: []string{"1 server", "2 server"},
			versions: map[string]string{"server": "7.0", "server on host2": "7.2"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			fake := &labtest.Fake{On: []string{"", "there"}, Installed: func(host int, program string) string {
				of := fmt.Sprintf("%d %s", host, program)
				asked = append(asked, of)
				return c.has[of]
			}}
			versions, lacks, err := Programs(t.Context(), c.resolved, fake)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(asked)
			if diff := cmp.Diff(c.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if c.lacks != "" {
				lack := lacks[0]
				if _, typed := errors.AsType[*linux.UnsupportedError](lack.Err); !typed || lack.Reason != c.lacks {
					t.Errorf("lacks %q, want %q", lack.Reason, c.lacks)
				}
				return
			}
			if len(lacks) > 0 {
				t.Errorf("lacks %v, want nothing", lacks)
			}
			if diff := cmp.Diff(c.versions, versions); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
		})
	}
}
