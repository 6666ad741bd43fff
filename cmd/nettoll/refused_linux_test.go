package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
)

// An error names what is missing and gives a hint, in one sentence. Nothing is left half built.
func TestRefused(t *testing.T) {
	testnet.Root(t)
	for _, tt := range []struct {
		name string
		args []string
		with func(*testing.T, *session)
		want []string
	}{
		{
			"no room for namespaces", nil,
			func(_ *testing.T, s *session) {
				inUserNamespace(s, "echo 0 > /proc/sys/user/max_net_namespaces")
			},
			[]string{"missing room for more namespaces", "hint: raise the sysctls user.max_net_namespaces"},
		},
		{
			"room for some namespaces", nil, // building fails halfway
			func(_ *testing.T, s *session) {
				inUserNamespace(s, "echo 3 > /proc/sys/user/max_net_namespaces")
			},
			[]string{"missing room for more namespaces", "hint: raise the sysctls user.max_net_namespaces"},
		},
		{
			"a kernel without this congestion control",
			[]string{"--set", "tune.congestion-control=nosuch"},
			nil,
			[]string{`congestion control "nosuch" cannot be set in every lab`, "known: auto, cubic, reno, bbr"},
		},
		{
			"disk full at the start", nil, func(t *testing.T, s *session) { onSmallDisk(t, s, "size=4k") },
			[]string{"run.json", "no space left on device"},
		},
		{
			"disk cannot be written", nil, func(t *testing.T, s *session) { onSmallDisk(t, s, "size=4k,ro") },
			[]string{"create run directory", "read-only file system"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := prepare(t, filepath.Join(reachable(t), "run"), append([]string{"--time", "3s"}, tt.args...)...)
			if tt.with != nil {
				tt.with(t, s)
			}
			s.begin()
			if status := s.wait(soon * 10); status != 1 {
				t.Errorf("exit status %d, want 1", status)
			}
			contains(t, "stderr", s.stderr.String(), tt.want...)
			if lines := complaints(s); len(lines) == 0 || len(lines) > 2 {
				t.Errorf("stderr has %d sentences, want one or two: %q", len(lines), lines)
			}
			if s.stdout.String() != "" {
				t.Errorf("stdout: %s", &s.stdout)
			}
		})
	}
}

// complaints returns the lines of stderr except progress and messages about other work on this machine.
func complaints(s *session) []string { return complain(s.stderr.String()) }

func complain(stderr string) []string {
	var lines []string
	for line := range strings.Lines(stderr) {
		busy := strings.TrimPrefix(strings.ToLower(line), "nettoll: ") // tests often run on a busy machine
		if !strings.HasPrefix(line, "measuring ") && !strings.HasPrefix(line, "generation ") &&
			!strings.HasPrefix(busy, "other programs use") && !strings.HasPrefix(busy, "another run of nettoll ") &&
			!strings.HasPrefix(busy, "another nettoll run ") &&
			strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// reachable makes a directory that every user can enter and write to.
func reachable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, open := range []struct {
		path string
		mode os.FileMode
	}{{dir, 0o777 | os.ModeSticky}, {filepath.Dir(dir), 0o711}, {os.TempDir(), 0o711}} {
		if open.path == "/tmp" {
			continue // it is accessible already
		}
		if err := os.Chmod(open.path, open.mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// inUserNamespace has the session start in a user namespace of its own, as root there, after a line of shell.
func inUserNamespace(s *session, line string) {
	s.cmd.Args = append([]string{"sh", "-ec", line + `; exec "$@"`, "sh"},
		append([]string{s.cmd.Path}, s.cmd.Args[1:]...)...)
	s.cmd.Path = "/bin/sh"
	a := s.cmd.SysProcAttr
	a.Cloneflags = unix.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{Size: 1}}
}

// onSmallDisk mounts a file system with these options at the parent of the run directory.
func onSmallDisk(t *testing.T, s *session, options string) {
	t.Helper()
	dir := filepath.Dir(s.dir)
	if err := unix.Mount("none", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

// If the disk is full in the middle of a run, all complete blocks are kept and reported.
func TestDiskFull(t *testing.T) {
	testnet.Root(t)
	s := prepare(t, filepath.Join(t.TempDir(), "run"), "--time", "6s", "--network", "bridge", "--workload", "udp-rr",
		"--placement", "same-host", "--precision", "0.01%")
	onSmallDisk(t, s, "size=72k")
	s.begin()
	if status := s.wait(soon * 15); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	contains(t, "stderr", s.stderr.String(), "no space left on device", "those written earlier are readable")
	if lines := complaints(s); len(lines) != 1 {
		t.Errorf("stderr says %d sentences, want one: %q", len(lines), lines)
	}
	contains(t, "stdout", s.stdout.String(), "loopback", "bridge", "baseline")

	log, _ := s.records()
	if len(log.Blocks) < 2 {
		t.Fatalf("%d blocks are kept: this shows nothing", len(log.Blocks))
	}
	trials := map[int]int{}
	for _, r := range log.Trials {
		trials[r.Block]++
	}
	for _, b := range log.Blocks {
		if trials[b.Block] != 3 {
			t.Errorf("block %d has %d trials, want 3", b.Block, trials[b.Block])
		}
	}
	said := nettoll(t, "report", s.dir)
	if said.status != 0 {
		t.Errorf("report exits with %d: %s", said.status, said.stderr)
	}
	contains(t, "report", said.stdout, "loopback", "bridge", "baseline")
}

// Commands that need no privilege run without any.
func TestNobody(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	dir := reachable(t)
	s := prepare(t, filepath.Join(dir, "run"), "--time", "300ms", "--workload", "udp-rr", "--placement", "same-host")
	s.begin()
	if status := s.wait(patience); status != 0 {
		t.Fatalf("exit status %d, want 0", status)
	}
	for _, args := range [][]string{
		{"report", s.dir},
		{"report", s.dir, "--format", "csv", "-o", filepath.Join(dir, "out.csv")},
		{"list"},
		{"version"},
		{"--help"},
	} {
		said := nettollAs(t, ordinary(), args...)
		if said.status != 0 || len(complain(said.stderr)) > 0 {
			t.Errorf("%q exits with %d: %s", args, said.status, said.stderr)
		}
	}
}
