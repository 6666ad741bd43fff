package testnet_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
)

// leakEnv selects the leak that the process makes.
const leakEnv = "NETTOLL_TEST_LEAK"

func TestMain(m *testing.M) { testnet.Main(m) }

// leaks are things that a test can leave behind.
func leaks() map[string]func() error {
	return map[string]func() error{
		"namespace": func() error {
			ns, err := netns.New(nil)
			if err != nil {
				return err
			}
			return errors.Join(netns.Bind(ns, "/run/left"), ns.Close())
		},
		"open file of namespace": func() error {
			ns, err := netns.New(nil)
			if err != nil {
				return err
			}
			_, err = unix.Dup(int(ns.Fd()))
			return errors.Join(err, ns.Close())
		},
		"thread in": func() error {
			in := make(chan error)
			go func() {
				runtime.LockOSThread()
				in <- unix.Unshare(unix.CLONE_NEWNET)
				select {}
			}()
			return <-in
		},
		"mount": func() error {
			dir := "/run/mounted"
			return errors.Join(os.Mkdir(dir, 0o700), unix.Mount("none", dir, "tmpfs", 0, ""))
		},
		"link left": func() error {
			h, err := link.Open()
			if err != nil {
				return err
			}
			defer h.Close()
			_, err = h.AddBridge(link.Bridge{Name: "left"})
			return err
		},
		"process": func() error { return exec.Command("sleep", "60").Start() },
		"file":    func() error { return os.WriteFile(filepath.Join(os.TempDir(), "left"), nil, 0o600) },
	}
}

// TestLeak makes the selected leak. By default it does nothing.
func TestLeak(t *testing.T) {
	if f := leaks()[os.Getenv(leakEnv)]; f != nil {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMainFails(t *testing.T) {
	testnet.Root(t)
	for _, kind := range []string{
		"", "namespace", "open file of namespace", "thread in", "mount", "link left", "process", "file",
	} {
		t.Run("leak of "+kind, func(t *testing.T) {
			t.Parallel() // each waits for two seconds
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestLeak$")
			for _, v := range os.Environ() {
				if !strings.HasPrefix(v, "NETTOLL_TESTNET=") {
					cmd.Env = append(cmd.Env, v)
				}
			}
			cmd.Env = append(cmd.Env, leakEnv+"="+kind)
			if kind != "" {
				cmd.Env = append(cmd.Env, "NETTOLL_TESTNET_SETTLE=2s")
			}
			out, err := cmd.CombinedOutput()
			if kind == "" {
				if err != nil {
					t.Errorf("without a leak: %v\n%s", err, out)
				}
				return
			}
			if err == nil || !strings.Contains(string(out), "testnet: the tests left behind:\n\t"+kind) {
				t.Errorf("a leak of %s ends with %v and\n%s", kind, err, out)
			}
		})
	}
}

func TestNew(t *testing.T) {
	m := testnet.New(t)
	if err := m.Do(func() error {
		list, err := net.Interfaces()
		if err == nil && (len(list) != 1 || list[0].Name != "lo") {
			err = fmt.Errorf("the machine has the links %v, want lo", list)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	// What is mounted in its directory is removed at the end; otherwise Main would fail.
	if err := netns.Bind(m.NS, filepath.Join(m.Dir, "left")); err != nil {
		t.Error(err)
	}
}

// recorder records what a test would do.
type recorder struct {
	testing.TB
	did string
}

func (*recorder) Helper() {}
func (r *recorder) Fatal(a ...any) {
	r.did = "fail: " + fmt.Sprint(a...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, a ...any) {
	r.did = "fail: " + fmt.Sprintf(format, a...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, a ...any) {
	r.did = "skip: " + fmt.Sprintf(format, a...)
	runtime.Goexit()
}

func TestSkip(t *testing.T) {
	dummy := &linux.UnsupportedError{What: `make link "x"`, Missing: `link type "dummy"`}
	hidden := &linux.UnsupportedError{What: "start it", Missing: `program "hidden"`}
	absent := &linux.UnsupportedError{What: "start it", Missing: `program "hid"`}
	t.Setenv("NETTOLL_WITHOUT", "other hidden")
	ebpf := &linux.UnsupportedError{What: "attach", Missing: "eBPF"}
	for _, c := range []struct {
		name   string
		noSkip string
		err    error
		want   string
	}{
		{"a program that is hidden", "1", hidden, "skip: start it: not supported here: missing program \"hidden\""},
		{
			"a program that is not", "1", absent,
			"fail: start it: not supported here: missing program \"hid\"\nNETTOLL_NOSKIP=1",
		},
		{"nothing", "", nil, ""},
		{"another error", "", errors.New("broken"), "fail: broken"},
		{"unsupported", "", fmt.Errorf("apply: %w", ebpf), "skip: apply: attach: not supported here: missing eBPF"},
		{"known to be missing in CI", "1", dummy, `skip: make link "x": not supported here: missing link type "dummy"`},
		{
			"missing in CI", "1", ebpf,
			"fail: attach: not supported here: missing eBPF\nNETTOLL_NOSKIP=1, and \"eBPF\" is not on the list",
		},
		{"without a type", "1", errors.ErrUnsupported, "fail: unsupported operation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("NETTOLL_NOSKIP", c.noSkip)
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				testnet.Skip(r, c.err)
			}()
			<-done
			if !strings.HasPrefix(r.did, c.want) || c.want == "" && r.did != "" {
				t.Errorf("Skip does %q, want %q", r.did, c.want)
			}
		})
	}
}
