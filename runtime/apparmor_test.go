package runtime

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/rights"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

func TestProfileName(t *testing.T) {
	for _, valid := range []string{"none", "unconfined", "docker-default", "cri-containerd.apparmor.d", "lxc_x2"} {
		if got, err := profileName(valid); err != nil || got != valid {
			t.Errorf("%q: %q, %v", valid, got, err)
		}
	}
	for _, bad := range []string{"", "-x", "a b", "/usr/bin/x", "a//b", "x,y=1", "ä", "a\nb", strings.Repeat("x", 101)} {
		_, err := RightsParams(false, false).Resolve("runtime x", map[string]string{AppArmor: bad})
		if err == nil || !strings.Contains(err.Error(), "docker-default") || !strings.Contains(err.Error(), "valid: none") {
			t.Errorf("%q: %v, want an error that says what is valid", bad, err)
		}
	}
}

// A profile that is not loaded is refused before anything is built, as is each profile without AppArmor.
func TestCheckProfiles(t *testing.T) {
	kinds := Kind{profiling{}}
	check := func(profile string) error {
		t.Helper()
		c, err := stack.Kinds{kinds}.Choose("runtime", "profiling", map[string]string{AppArmor: profile})
		if err != nil {
			t.Fatal(err)
		}
		return kinds.CheckOutside(t.Context(), stack.Stack{c})
	}
	if err := check(none); err != nil {
		t.Errorf("without a profile: %v", err)
	}
	loaded, err := rights.Profiles("")
	lacking, is := errors.AsType[*linux.UnsupportedError](err)
	if err != nil && !is {
		t.Fatal(err)
	}
	for profile, missing := range map[string]string{
		"nettoll-missing": "nettoll-missing", rights.Unconfined: DefaultProfile,
	} {
		want := `AppArmor profile "` + missing + `"`
		if is {
			want = lacking.Missing
		} else if slices.Contains(loaded, missing) {
			continue
		}
		err := check(profile)
		if u, is := errors.AsType[*linux.UnsupportedError](err); !is || u.Missing != want || u.Hint == "" ||
			!strings.Contains(u.What, profile) {
			t.Errorf("%s: %v, want %s to be missing, with a hint", profile, err, want)
		}
	}
}

// profiling is a runtime whose daemon would load docker-default.
type profiling struct{ Runtime }

func (profiling) Describe() Description {
	return Description{Name: "profiling", Params: RightsParams(false, false)}
}

func (profiling) Loads(part.Params) []string { return []string{DefaultProfile} }

func TestSomeOf(t *testing.T) {
	for want, list := range map[string]string{
		"the kernel has no profile": "", "loaded are a, b": "a b",
		"loaded are a, b, c, d, e, f, g, h and 2 others": "a b c d e f g h i j",
	} {
		if got := someOf(strings.Fields(list)); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

// A container that has another profile than the one asked for is not taken for one that has it.
func TestProfiled(t *testing.T) {
	t.Parallel()
	c := Contained{Name: "src0", Rights: Rights{AppArmor: "nettoll-missing"}}
	err := c.profiled(t.Context(), "/proc", os.Getpid())
	if err == nil || !strings.HasSuffix(err.Error(), `(want "nettoll-missing")`) {
		t.Errorf("another profile: %v", err)
	}
	if err := c.profiled(t.Context(), t.TempDir(), os.Getpid()); err == nil || err.Error() != "its worker has ended" {
		t.Errorf("a process that has ended: %v", err)
	}
	if err := (Contained{}).profiled(t.Context(), "/proc", os.Getpid()); err != nil {
		t.Errorf("no profile: %v", err)
	}
	if err := c.suspected(os.ErrPermission); !errors.Is(err, os.ErrPermission) ||
		!strings.Contains(err.Error(), "its AppArmor profile nettoll-missing may refuse") {
		t.Errorf("a failure under a profile: %v", err)
	}
	if err := (Rights{}).suspected(os.ErrPermission); err != os.ErrPermission { //nolint:errorlint // the same value
		t.Errorf("a failure without a profile: %v", err)
	}
}
