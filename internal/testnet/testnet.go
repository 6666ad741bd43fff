package testnet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/netns"
)

// A Machine is a private network namespace that ends with its test.
type Machine struct {
	// NS is the namespace.
	NS *os.File
	// Dir is an empty directory in which namespaces can be made to stand; those left are removed at the end.
	Dir string
}

// New makes a machine for a test, or skips the test where that is not possible ([Root]).
func New(t testing.TB) *Machine {
	t.Helper()
	Root(t)
	//nolint:usetesting // namespaces stand in it, and are to be gone before it is removed
	dir, err := os.MkdirTemp(directory(), "machine-")
	if err != nil {
		t.Fatal(err)
	}
	ns, err := netns.New(nil)
	if err != nil {
		Skip(t, err)
	}
	m := &Machine{NS: ns, Dir: dir}
	t.Cleanup(func() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Errorf("end the machine: %v", err)
		}
		for _, e := range entries {
			if err := netns.Unbind(filepath.Join(dir, e.Name())); err != nil {
				t.Errorf("end the machine: %v", err)
			}
		}
		if err := errors.Join(os.Remove(dir), ns.Close()); err != nil {
			t.Errorf("end the machine: %v", err)
		}
	})
	return m
}

// directory is where machines have their directories: the private /run, or where temporary files are.
func directory() string {
	if strings.HasPrefix(os.Getenv(mark), insideMark) {
		return "/run"
	}
	return os.TempDir()
}

// mark is the variable that the process which [Main] runs the tests in, and all that it starts, have in their
// environment. Its value begins with insideMark.
const (
	mark       = "NETTOLL_TESTNET"
	insideMark = "inside:"
)

// Do calls f on a thread inside the machine and returns its error. f must not call t.Fatal or t.Skip.
func (m *Machine) Do(f func() error) error { return netns.Do(int(m.NS.Fd()), f) }

// Root skips the test, or fails it under NETTOLL_NOSKIP, unless it may make and configure network namespaces.
func Root(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" {
		Skip(t, &linux.UnsupportedError{What: "make a private machine", Missing: "Linux"})
	}
	if err := mayConfigure(); err != nil {
		Skip(t, err)
	}
}

const (
	// noSkip is the variable that makes skips fail: CI sets it.
	noSkip = "NETTOLL_NOSKIP"
	// without is the variable that lists the programs that were hidden from the tests on purpose, with spaces between
	// them: scripts/without sets it.
	without = "NETTOLL_WITHOUT"
)

// Skip does nothing if err is nil. It skips the test if err is errors.ErrUnsupported and says what is missing; with
// NETTOLL_NOSKIP=1 it fails it instead, unless what is missing is on the list of what the machine is known to lack, or
// a program that NETTOLL_WITHOUT lists as hidden. On any other error it fails the test.
func Skip(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	if !Excused(err) {
		t.Fatalf("%v\n%s=1, and %q is not on the list of what this machine is known to lack (testnet.Lacking)", err, noSkip,
			missing(err))
	}
	t.Skipf("%v", err)
}

// Excused says whether a test may be left out for an error that is errors.ErrUnsupported.
func Excused(err error) bool {
	return os.Getenv(noSkip) != "1" || slices.Contains(Lacking(), missing(err))
}

func missing(err error) string {
	if u, ok := errors.AsType[*linux.UnsupportedError](err); ok {
		return u.Missing
	}
	return ""
}

// Locate returns the path of a program that only tests start, or a [linux.UnsupportedError] that names it and its
// Debian package.
func Locate(program, pkg string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", &linux.UnsupportedError{
			What: "let " + program + " show it, too", Missing: fmt.Sprintf("program %q", program), Hint: "apt-get install " +
				pkg, Err: err,
		}
	}
	return path, nil
}

// Program is Locate, and skips the test where the program is not installed.
func Program(t testing.TB, program, pkg string) string {
	t.Helper()
	path, err := Locate(program, pkg)
	Skip(t, err)
	return path
}

// Lacking lists what the machine of a test run is known to lack, as in [linux.UnsupportedError].Missing: a CI machine
// or a guest, and the programs that were hidden from the tests.
func Lacking() []string {
	list := ciLacking()
	if Guest() {
		list = guestLacking()
	}
	for name := range strings.FieldsSeq(os.Getenv(without)) {
		list = append(list, fmt.Sprintf("program %q", name))
	}
	return list
}

// ciLacking is for the CI machines: their kernel, 6.18 without modules, tried link type by link type; and a program
// that is no part of Debian's main, where scripts/needs could not get it. "guest" is for tests that are about the guest
// itself.
func ciLacking() []string {
	return append(linkTypes("dummy ipip gre ipvlan geneve wireguard vlan bond netkit vrf macsec sit ip6tnl ip6gre gretap "+
		"ip6gretap vti xfrm nlmon bareudp team vcan gtp netdevsim l2tp hsr amt ipoib"), `queueing discipline "netem"`, `program "netperf"`,
		"guest")
}

// guestLacking is for guests: Debian's kernels for clouds with their modules for networks. 6.12 was tried link type by
// link type; 6.1 has neither tcx (Linux 6.6) nor netkit (Linux 6.7).
func guestLacking() []string {
	list := linkTypes("bareudp vcan vxcan gtp netdevsim hsr amt ipoib")
	if os.Getenv(guestEnv) == "6.1" {
		list = append(list, linkTypes("netkit")...)
		list = append(list, "tcx")
	}
	return list
}

func linkTypes(names string) []string {
	var list []string
	for kind := range strings.FieldsSeq(names) {
		list = append(list, `link type "`+kind+`"`)
	}
	return list
}

// guestEnv is set in a guest by cmd/testguest, to the series of its kernel.
const guestEnv = "NETTOLL_GUEST"

// Guest tells whether the tests run in a virtual machine of make test-guest.
func Guest() bool { return os.Getenv(guestEnv) != "" }

// NotInRace skips a test where the race detector is on: it takes memory, an address space and time of its own.
func NotInRace(t testing.TB, why string) {
	t.Helper()
	if Race {
		t.Skipf("not with the race detector: %s", why)
	}
}

// NotInGuest skips a test in a guest. Why says what is so on the machine and not there: it would only show again,
// slowly, what it has shown on the machine; it needs time to pass as on real processors; it needs the source of other
// packages.
func NotInGuest(t testing.TB, why string) {
	t.Helper()
	if Guest() {
		t.Skipf("not in a guest: %s", why)
	}
}
