package runtimetest

import (
	"bytes"
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/rights"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/worker"
)

// NoTCP is the name of a profile of [Load] that refuses sockets of TCP.
const NoTCP = "nettoll-no-tcp"

// profiles are what [Load] loads. The first is that of Docker (moby, profiles/apparmor/template.go), and the second is
// the same for sockets but for one rule.
const profiles = `@{PROC}=/proc/
profile docker-default flags=(attach_disconnected,mediate_deleted) {
  network,
  capability,
  file,
  umount,
  signal (receive) peer=unconfined,
  signal (send,receive) peer=docker-default,
  deny @{PROC}/* w,
  deny @{PROC}/sys/[^k]** w,
  deny @{PROC}/sysrq-trigger rwklx,
  deny @{PROC}/kcore rwklx,
  deny mount,
  deny /sys/[^f]*/** wklx,
  ptrace (trace,read,tracedby,readby) peer=docker-default,
}
profile nettoll-no-tcp flags=(attach_disconnected,mediate_deleted) {
  network,
  capability,
  file,
  umount,
  signal,
  deny network inet stream,
}
`

// Load loads profiles of AppArmor into the kernel of a guest for the test: docker-default and [NoTCP]. It skips the
// test if the kernel has no AppArmor. A machine keeps its own profiles: outside of a guest the test is skipped, too.
func Load(t *testing.T) {
	t.Helper()
	const what = "load profiles of AppArmor"
	loaded, err := rights.Profiles(what)
	if u, is := errors.AsType[*linux.UnsupportedError](err); is && u.Missing == "securityfs" && testnet.Guest() {
		const at = "/sys/kernel/security" // of this test's mounts
		if out, err := exec.Command("mount", "-t", "securityfs", "securityfs", at).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Cleanup(func() {
			if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		loaded, err = rights.Profiles(what)
	}
	if err == nil && !testnet.Guest() {
		err = &linux.UnsupportedError{What: what, Missing: "guest", Hint: "make test-guest"}
	}
	testnet.Skip(t, err)
	if slices.Contains(loaded, runtime.DefaultProfile) {
		t.Fatalf("%s is loaded before the test", runtime.DefaultProfile)
	}
	testnet.Program(t, parser, "apparmor")
	t.Cleanup(func() {
		Unload(t)
		if left, err := rights.Profiles(what); err != nil || len(left) != len(loaded) {
			t.Errorf("after the test the kernel has the profiles %q (%v), want %q", left, err, loaded)
		}
	})
	if out, err := parse("--replace"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// Unload removes what [Load] has loaded, if it is still there.
func Unload(t *testing.T) {
	t.Helper()
	if out, err := parse("--remove"); err != nil && !bytes.Contains(out, []byte("Profile doesn't exist")) {
		t.Errorf("%v: %s", err, out)
	}
}

const parser = "apparmor_parser"

func parse(option string) ([]byte, error) {
	cmd := exec.Command(parser, option, "--skip-cache")
	cmd.Stdin = strings.NewReader(profiles)
	return cmd.CombinedOutput()
}

// Profiled checks that the containers of a runtime have the AppArmor profile that is chosen: their workers report it as
// the kernel does, work under Docker's, and are refused what another one denies.
func Profiled(t *testing.T, r runtime.Runtime, given map[string]string) {
	t.Run("AppArmor", func(t *testing.T) {
		Load(t)
		for name, refused := range map[string]string{
			runtime.DefaultProfile: "", NoTCP: "permission denied", rights.Unconfined: "",
		} {
			p := map[string]string{runtime.AppArmor: name}
			maps.Copy(p, given)
			check := func(t *testing.T, l deploy.Lab, own map[string]int) {
				t.Helper()
				want := name
				if name != rights.Unconfined {
					want += " (enforce)"
				}
				w := start(t, l)
				var told rights.Rights
				if err := w.Call(t.Context(), worker.Rights, nil, &told); err != nil {
					t.Fatal(err)
				}
				for container, pid := range own {
					if has := label(t, pid); told.AppArmor != want || has != want {
						t.Errorf("a worker reports %q, and %s has %q, want %q", told.AppArmor, container, has, want)
					}
				}
				var can []string
				err := w.Call(t.Context(), worker.Congestion, worker.CongestionParams{Candidates: []string{"reno"}}, &can)
				if refused == "" && (err != nil || len(can) == 0) ||
					refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
					t.Errorf("a socket of TCP: %q, %v, want an error %q", can, err, refused)
				}
				if err := l.Verify(t.Context()); err != nil {
					t.Error(err)
				}
			}
			inhabit(t, r, p, []inhabitedCheck{{name: name, hosts: 1, check: check}})
		}
	})
}
