package control

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/host"
)

// What programs use without traffic is known by host and name; those that came or went do not count.
func TestIdled(t *testing.T) {
	use := func(host1, name string, cpu time.Duration) deploy.Use {
		return deploy.Use{Host: host1, ProgramUse: host.ProgramUse{Name: name, CPU: cpu}}
	}
	before := []deploy.Use{use("host1", "a", time.Second), use("host2", "a", 2*time.Second), use("host2", "went", 0)}
	after := []deploy.Use{
		use("host1", "a", time.Second+4*time.Millisecond), use("host2", "a", 2*time.Second), use("host1", "came", time.Second),
	}
	got := idled(before, after, 2*time.Second)
	want := []idleUse{{"host1", "a", 0.002}, {"host2", "a", 0}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(idleUse{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if sum := idleCores(got); sum != 0.002 {
		t.Errorf("all together use %v", sum)
	}
	if text := idleDoubt(got); text != "" {
		t.Errorf("no more than allowed, and a doubt: %s", text)
	}
	if idled(before, after, 0) == nil {
		t.Error("nothing that was measured is the same as not measured")
	}
}

// A doubt names the programs that use most, and says what to do.
func TestIdleDoubt(t *testing.T) {
	text := idleDoubt([]idleUse{
		{"host1", "small", 0.0001}, {"host1", "b", 0.004}, {"host2", "d", 0.0021}, {"host2", "c", 0.003}, {"host2", "a", 0.02},
	})
	for _, part := range []string{"use 2.9 % of a core", "(a on host2 2 %, b on host1 0.4 %, c on host2 0.3 %)", "a run of its own"} {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %q: %s", part, text)
		}
	}
}
