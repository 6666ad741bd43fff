package testnet

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/netns"
)

// A Machine is a private network namespace that ends with its test.
type Machine struct {
	// NS is the namespace.
	NS *os.File
	// Dir is an empty directory in which namespaces can be mounted; those left are removed at the end.
	Dir string
}

// New makes a machine for a test, or skips the test if that is not possible ([Root]).
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

// directory returns the parent directory of machines' directories: the private /run, or that of temporary files.
func directory() string {
	if strings.HasPrefix(os.Getenv(mark), insideMark) {
		return "/run"
	}
	return os.TempDir()
}

// mark is a variable in the environment of the process in which [Main] runs the tests, and of all its descendants. Its
// value begins with insideMark.
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
	// noSkip is the variable that turns skips into failures: CI sets it.
	noSkip = "NETTOLL_NOSKIP"
	// without is the variable with the programs that were deliberately hidden from the tests, separated by spaces:
	// scripts/without sets it.
	without = "NETTOLL_WITHOUT"
)

// Skip does nothing if err is nil. If err is errors.ErrUnsupported, it skips the test and says what is missing. With
// NETTOLL_NOSKIP=1 it fails the test instead, unless the machine is known to lack that, or NETTOLL_WITHOUT lists it as
// a hidden program. For any other error it fails the test.
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

// Lacks skips the test because the machine lacks something, see [Skip].
func Lacks(t testing.TB, missing string) {
	t.Helper()
	Skip(t, &linux.UnsupportedError{What: "run this test", Missing: missing})
}

// Excused reports whether a test may be left out for an error that is errors.ErrUnsupported.
func Excused(err error) bool {
	return os.Getenv(noSkip) != "1" || slices.Contains(Lacking(), missing(err))
}

func missing(err error) string {
	if u, ok := errors.AsType[*linux.UnsupportedError](err); ok {
		return u.Missing
	}
	return ""
}

// Locate returns the path of a program that only tests start. If it is missing, the error is a [linux.UnsupportedError]
// with the names of the program and its Debian package.
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

// Program is like Locate, but skips the test if the program is not installed.
func Program(t testing.TB, program, pkg string) string {
	t.Helper()
	path, err := Locate(program, pkg)
	Skip(t, err)
	return path
}

// Lacking lists what the machine of a test run is known to lack, as in [linux.UnsupportedError].Missing. It covers a CI
// machine, a guest, and programs that were hidden from the tests.
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

// ciLacking is the list for CI machines. Their kernel, 6.18 without modules, was tried with each link type. One program
// is not in Debian's main section, so scripts/needs could not install it. Some machines have no driver for sleeping
// CPUs. "guest" is for tests of the guest itself.
func ciLacking() []string {
	return append(linkTypes("dummy ipip gre ipvlan geneve wireguard vlan bond netkit vrf macsec sit ip6tnl ip6gre gretap "+
		"ip6gretap vti xfrm nlmon bareudp team vcan gtp netdevsim l2tp hsr amt ipoib"), `queueing discipline "netem"`, `program "netperf"`,
		"AppArmor in the kernel", "cpuidle driver", "VLANs of bridges", "ESP in the kernel",
		"cgroup v2 alone", "guest")
}

// guestLacking is the list for guests: Debian's kernels for clouds with their modules for networks. 6.12 was tried with
// each link type; 6.1 has neither tcx (Linux 6.6) nor netkit (Linux 6.7).
func guestLacking() []string {
	list := append(linkTypes("bareudp vcan vxcan gtp netdevsim hsr amt ipoib"), "arptables in the kernel", "cgroups of v1")
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

// guestEnv is set in a guest by cmd/testguest to the series of its kernel.
const guestEnv = "NETTOLL_GUEST"

// Guest reports whether the tests run in a virtual machine of make test-guest.
func Guest() bool { return os.Getenv(guestEnv) != "" }

// slow is the variable of make test-slow.
const slow = "NETTOLL_SLOW"

// IsSlow reports whether the tests run in full, as in make test-slow and in a guest. CI has time only for a short form
// of some.
func IsSlow() bool { return os.Getenv(slow) == "1" || Guest() }

// Slow skips a test unless [IsSlow]. Why says what CI tries all the same. The Makefile lists the package (SLOW_PKG).
func Slow(t testing.TB, why string) {
	t.Helper()
	if !IsSlow() {
		t.Skipf("left to make test-slow: %s", why)
	}
}

// turn is the variable of make test: the hour, counted from 1970, whose tests it makes.
const turn = "NETTOLL_TURN"

// turns is how many hours make test takes for every [Turn].
const turns = 3

// Turn leaves a test of a long table to another hour, by its name: make test has time for a third of them. It is for
// tests that differ by a part or a parameter, so that others show what they share. go test and make test-slow make all.
// The Makefile lists the package (SLOW_PKG).
func Turn(t testing.TB) {
	t.Helper()
	if !IsTurn(t.Name()) {
		t.Skip("left to make test in another hour, and to make test-slow")
	}
}

// IsTurn reports whether it is the turn of what has a name and is no test of its own, see [Turn].
func IsTurn(name string) bool {
	return os.Getenv(turn) == "" || IsSlow() || int(sha256.Sum256([]byte(name))[0])%turns == Hour()%turns
}

// Hour is the hour, counted from 1970, for what is another one each hour. make test has the same for all of its tests.
func Hour() int {
	if hour, err := strconv.Atoi(os.Getenv(turn)); err == nil {
		return hour
	}
	return int(time.Now().Unix() / 3600)
}

// kube is the variable of make test-kube and make test-kube-full, and full what the latter sets it to.
const (
	kube = "NETTOLL_KUBE"
	full = "full"
)

// Kube skips a test that starts a Kubernetes cluster unless make test-kube or make test-kube-full runs it. The Makefile
// lists the package (KUBE_PKG).
func Kube(t testing.TB) {
	t.Helper()
	if set := os.Getenv(kube); set != "1" && set != full {
		t.Skip("left to make test-kube: it starts a Kubernetes cluster")
	}
}

// KubeFull skips a test that starts a Kubernetes cluster unless make test-kube-full runs it. Why says what make
// test-kube has no time for. The Makefile lists the package (KUBE_FULL_PKG).
func KubeFull(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(kube) != full {
		t.Skipf("left to make test-kube-full: %s", why)
	}
}

// NotWithout skips a test that starts no optional program if those were hidden, because it would only show again what
// it has shown beside them.
func NotWithout(t testing.TB) {
	t.Helper()
	if os.Getenv(without) != "" {
		t.Skip("not without programs: it starts none that is hidden")
	}
}

// NotInRace skips a test if the race detector is on, because the detector needs memory, address space and time.
func NotInRace(t testing.TB, why string) {
	t.Helper()
	if Race {
		t.Skipf("not with the race detector: %s", why)
	}
}

// NotInGuest skips a test in a guest. Why gives the reason: the guest would only show again, slowly, what the machine
// has shown; the test needs the speed of real processors; or it needs the source of other packages.
func NotInGuest(t testing.TB, why string) {
	t.Helper()
	if Guest() {
		t.Skipf("not in a guest: %s", why)
	}
}
