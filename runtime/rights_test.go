package runtime

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nettoll/nettoll/internal/linux/rights"
	"github.com/nettoll/nettoll/part"
)

func TestRightsOf(t *testing.T) {
	for _, c := range []struct {
		given map[string]string
		want  Rights
		says  string
	}{
		{nil, Rights{}, ""},
		{map[string]string{Capabilities: all}, Rights{Privileged: true}, ", with all capabilities"},
		{
			map[string]string{Capabilities: none, Seccomp: usual, NoNewPrivileges: "off"},
			Rights{Bare: true, Filtered: true, NewPrivileges: true},
			", without capabilities, with a seccomp profile, with a way to new privileges",
		},
		{
			map[string]string{AppArmor: "docker-default"},
			Rights{AppArmor: "docker-default"},
			", with AppArmor profile docker-default",
		},
	} {
		p, err := RightsParams(false, false).Resolve("runtime x", c.given)
		if err != nil {
			t.Fatal(err)
		}
		if got := RightsOf(p); got != c.want || got.String() != c.says {
			t.Errorf("%v: %+v%s, want %+v%s", c.given, got, got, c.want, c.says)
		}
	}
	if _, err := RightsParams(false, false).Resolve("runtime x", part.Params{Seccomp: "docker"}); err == nil {
		t.Error("a profile that does not exist is taken")
	}
	p, err := RightsParams(true, true).Resolve("runtime x", nil)
	if want := (Rights{Filtered: true, NewPrivileges: true}); err != nil || RightsOf(p) != want {
		t.Errorf("%+v (%v), want the defaults %+v", RightsOf(p), err, want)
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		rights Rights
		want   string
	}{
		{Rights{Filtered: true, NewPrivileges: true}, ""},
		{Rights{Filtered: true, NewPrivileges: true, AppArmor: "x"}, "--security-opt apparmor=x"},
		{Rights{Bare: true}, "--cap-drop ALL --security-opt seccomp=unconfined --security-opt no-new-privileges"},
	} {
		if got, err := c.rights.Flags(); err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q (%v), want %q", c.rights, got, err, c.want)
		}
	}
	lacked, err := LackedCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Rights{Privileged: true, Filtered: true, NewPrivileges: true}.Flags()
	if err != nil || len(got) != 2+2*len(lacked) || got[1] != "ALL" {
		t.Errorf("all: %q (%v), without %q", got, err, lacked)
	}
}

func TestCapabilities(t *testing.T) {
	own, err := rights.All()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		rights Rights
		want   []string
	}{
		"usual": {Rights{}, UsualCapabilities()}, "none": {Rights{Bare: true}, []string{}},
		"all": {Rights{Privileged: true}, rights.List(own)},
	} {
		got, err := c.rights.Capabilities()
		if err != nil || got == nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
	known := rights.Names()
	if i := slices.IndexFunc(UsualCapabilities(), func(c string) bool { return !slices.Contains(known, c) }); i >= 0 {
		t.Errorf("%s is no capability", UsualCapabilities()[i])
	}
}

// The profile refuses what it does not list, and allows more to who has more capabilities.
func TestFilter(t *testing.T) {
	if f, err := (Rights{}).Filter(); f != nil || err != nil {
		t.Errorf("%v (%v), want no filter", f, err)
	}
	for _, c := range []struct {
		rights Rights
		mount  bool
	}{{Rights{Filtered: true}, false}, {Rights{Filtered: true, Privileged: true}, true}} {
		if set, err := rights.All(); err != nil || c.mount && set&(1<<21) == 0 { // CAP_SYS_ADMIN
			continue
		}
		f, err := c.rights.Filter()
		if err != nil {
			t.Fatal(err)
		}
		allowed := func(call string) bool {
			return slices.ContainsFunc(f.Syscalls, func(s specs.LinuxSyscall) bool {
				return s.Action == specs.ActAllow && slices.Contains(s.Names, call)
			})
		}
		if f.DefaultAction != specs.ActErrno || !allowed("socket") || !allowed("read") || allowed("kexec_load") ||
			allowed("mount") != c.mount {
			t.Errorf("%+v: by default %s, socket %t, read %t, kexec_load %t, mount %t (want %t)", c.rights, f.DefaultAction,
				allowed("socket"), allowed("read"), allowed("kexec_load"), allowed("mount"), c.mount)
		}
	}
}
