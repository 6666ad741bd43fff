package host_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/testnet"
)

// passes returns a program of a type, which passes everything.
func passes(t *testing.T, of ebpf.ProgramType, at ebpf.AttachType) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: of, AttachType: at, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
	})
	if err != nil {
		testnet.Skip(t, err)
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// inGroup moves this process into a control group of its own below the one that it is in, until the test ends.
func inGroup(t *testing.T) (dir string) {
	t.Helper()
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(hierarchies, func(h cgroup.Hierarchy) bool { return h.V2 })
	if at < 0 {
		testnet.Lacks(t, "cgroup v2")
	}
	own := filepath.Join(hierarchies[at].Dir, cgroup.InUnified(os.Getpid())[0])
	name := fmt.Sprintf("nettoll-test-%d", os.Getpid())
	dir = filepath.Join(own, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	move := func(to string) error { return os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte("0"), 0o600) }
	t.Cleanup(func() {
		if err := errors.Join(move(own), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := move(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Programs that somebody attaches to the control group of the host's processes, or to a network namespace, are named,
// also when they are taken away again.
func TestAuditKnowsPrograms(t *testing.T) {
	group := inGroup(t)
	k, s, _ := watched(t, host.Namespace{Name: "c"})
	is := func(when, want string) {
		t.Helper()
		a, err := s.Audit(k, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(a.Changes, "\n"); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("%s: %q, want %s", when, got, want)
		}
	}
	is("before", "")
	egress, err := link.AttachCgroup(link.CgroupOptions{
		Path: group, Attach: ebpf.AttachCGroupInetEgress,
		Program: passes(t, ebpf.CGroupSKB, ebpf.AttachCGroupInetEgress),
	})
	if err != nil {
		t.Fatal(err)
	}
	where := "programs at egress of the control group " + regexp.QuoteMeta(cgroup.InUnified(os.Getpid())[0])
	is("attached to the group", where+`: none → program \d+`)
	is("it stays", "")
	if err := egress.Close(); err != nil {
		t.Fatal(err)
	}
	is("detached from the group", where+`: program \d+ → none`)

	at, err := os.Open(k.Path("c"))
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	lookup, err := link.AttachNetNs(int(at.Fd()), passes(t, ebpf.SkLookup, ebpf.AttachSkLookup))
	if err != nil {
		t.Fatal(err)
	}
	is("attached to the namespace", `programs at sk_lookup: added \(program \d+\), in namespace c`)
	if err := lookup.Close(); err != nil {
		t.Fatal(err)
	}
	is("detached from the namespace", `programs at sk_lookup: removed \(it was program \d+\), in namespace c`)
}

// A socket of the host's own that is closed while an audit looks is nobody else's, although a program that is being
// started still has it until it runs.
func TestAuditKnowsItsOwnClosedSockets(t *testing.T) {
	k, s, _ := watched(t, host.Namespace{Name: "c"})
	stop, starting := make(chan struct{}), sync.WaitGroup{}
	starting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = os.StartProcess(os.DevNull, nil, new(os.ProcAttr)) // it is no program, and what begins it ends
			}
		}
	})
	defer starting.Wait()
	defer close(stop)
	for range 300 {
		var c net.PacketConn
		if err := k.Do("c", func() error {
			return sock.Rebind(func() (err error) { // such a program may still have the socket of the round before
				c, err = net.ListenPacket("udp", "127.0.0.1:7000")
				return err
			})
		}); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		a, err := s.Audit(k, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Changes) > 0 {
			t.Fatalf("a socket that was closed before the audit: %q", a.Changes)
		}
	}
}
