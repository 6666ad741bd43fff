package control

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/runtime/netns"
)

// CPUs are kept awake in trials where that is asked for or possible. The records say which it was, and why if it was
// not possible.
func TestWake(t *testing.T) {
	refused := &linux.UnsupportedError{What: "keep CPUs awake", Missing: "cpuidle driver"}
	for name, c := range map[string]struct {
		idles []string
		at    *labtest.Fake
		idle  []string // of the cells, each once
		woken bool
		doubt string
		err   string
	}{
		"auto": {nil, &labtest.Fake{}, []string{"awake"}, true, "", ""},
		"auto, refused": {
			nil, &labtest.Fake{Sleepless: refused},
			[]string{"deep"},
			false,
			"latencies contain waking CPUs up: keep CPUs awake: not supported here: missing cpuidle driver", "",
		},
		"deep":            {[]string{"deep"}, &labtest.Fake{}, []string{"deep"}, false, "", ""},
		"both":            {[]string{"awake", "deep"}, &labtest.Fake{}, []string{"awake", "deep"}, true, "", ""},
		"awake, refused":  {[]string{"awake"}, &labtest.Fake{Sleepless: refused}, nil, false, "", "idle=awake: keep CPUs awake"},
		"awake, but slow": {nil, &labtest.Fake{Asleep: 0.3}, []string{"awake"}, true, "slept 30 % of the time", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := imagined(t, netns.Runtime{}, func(e *experiment.Experiment) { e.Factors.Idles = c.idles })
			out, err := Run(t.Context(), Options{Resolved: r, Deployment: c.at})
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) {
					t.Fatalf("error %v, want one that begins with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var idle []string
			for _, cell := range out.Run.Cells {
				idle = append(idle, cell.Idle)
			}
			slices.Sort(idle)
			if got := slices.Compact(idle); !slices.Equal(got, c.idle) {
				t.Errorf("cells have idle %q, want %q", got, c.idle)
			}
			times, still := c.at.Awakened()
			if still || times > 1 != c.woken {
				t.Errorf("kept awake %d times, still so: %v", times, still)
			}
			said := slices.IndexFunc(out.Log.Warnings, func(w measure.Warning) bool {
				return strings.Contains(w.Text, "CPUs were to stay awake") || strings.Contains(w.Text, "waking CPUs up")
			})
			switch {
			case c.doubt == "" && said >= 0:
				t.Errorf("it doubts: %s", out.Log.Warnings[said].Text)
			case c.doubt != "" && (said < 0 || !strings.Contains(out.Log.Warnings[said].Text, c.doubt)):
				t.Errorf("warnings %v, want one with %q", out.Log.Warnings, c.doubt)
			}
		})
	}
}

// A kernel that stops telling how long CPUs slept ends no run.
func TestWakeUnknown(t *testing.T) {
	w := &wake{end: func() (float64, error) { return 0, errors.New("no such file") }}
	w.sleep()
	if got := w.doubt(nil); !strings.Contains(got, "is not known: no such file; see") {
		t.Errorf("it says %q", got)
	}
}
