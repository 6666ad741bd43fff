package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/traffic"
)

// monitoring serves a monitor of this machine, and returns calls to it.
func monitoring(t *testing.T) func(method string, params, result any) error {
	t.Helper()
	in, there := io.Pipe()
	back, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Monitor(context.WithoutCancel(t.Context()), in, out) }()
	client := protocol.Dial(back, there, nil)
	t.Cleanup(func() {
		_ = client.Close()
		_ = there.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(method string, params, result any) error { return client.Call(t.Context(), method, params, result) }
}

// A monitor reads what /proc and rtnetlink show of the machine and of the namespace in which it is.
func TestMonitorReads(t *testing.T) {
	call := monitoring(t)
	read := func() (r traffic.Reading) {
		t.Helper()
		if err := call(methodRead, nil, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	before, err := procfs.ReadCPUTime()
	if err != nil {
		t.Fatal(err)
	}
	first := read()
	time.Sleep(100 * time.Millisecond)
	second := read()
	after, err := procfs.ReadCPUTime()
	if err != nil {
		t.Fatal(err)
	}
	for mode, s := range first.CPU {
		if s < before[mode] || second.CPU[mode] < s || after[mode] < second.CPU[mode] {
			t.Errorf("CPU time %s: %v, then %v; /proc/stat had %v before and %v after that", mode, s, second.CPU[mode],
				before[mode], after[mode])
		}
	}
	d := second.Since(first)
	if took := time.Duration(d.At); took < 100*time.Millisecond || d.Clock == "" || d.Memory <= 0 || d.Softirqs < 0 {
		t.Errorf("after 100 ms: %+v", d)
	}
	h, err := link.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	links, err := h.Traffic()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if !slices.ContainsFunc(second.Devices, func(d traffic.DeviceCount) bool {
			return d.Name == l.Name && d.Index == l.Index && d.Received <= int64(l.Received) && d.Sent <= int64(l.Sent) &&
				d.ReceivedBytes <= int64(l.ReceivedBytes)
		}) {
			t.Errorf("link %+v is not among the devices %+v", l, second.Devices)
		}
	}
}

// grouped starts a program under a name, a script of the shell, in a control group of its own, until the end of the test.
// It is no descendant of this process.
func grouped(t *testing.T, group, name, script string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink("/bin/sh", path); err != nil {
		t.Fatal(err)
	}
	testnet.Skip(t, cgroup.Usable("put a program into a control group"))
	list, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(list[0].Dir, group)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", `"$0" -c "$1" >/dev/null 2>&1 & echo $!`, path, script).Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	gone, _, err := process.Await(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Error(err)
		}
		<-gone
		if err := cgroup.RemoveAt(list[0].Dir, group); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), out, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Programs in pods of the run are not others, and all others are. If no process is in one of these pods, nothing is said of others.
func TestMonitorPrograms(t *testing.T) {
	call := monitoring(t)
	if err := call(methodEnd, ours{}, &programs{}); err == nil {
		t.Error("the end without a begin is no error")
	}
	// As the cgroup driver systemd writes nettoll-monitor-…
	busy, idle := fmt.Sprintf("nettoll_monitor_%d", os.Getpid()), fmt.Sprintf("nettoll_monitor_%d_idle", os.Getpid())
	spinner := fmt.Sprintf("spin%d", os.Getpid())                                     // no other program has that name
	grouped(t, busy, spinner, "n=0; while [ $((n += 1)) -lt 100000000 ]; do :; done") // a minute, or two
	grouped(t, idle, "wait", "exec sleep 100")
	for _, c := range []struct {
		name          string
		pods          string
		known, listed bool
	}{
		{"of the run", strings.ReplaceAll(busy, "_", "-"), true, false},
		{"of somebody else", strings.ReplaceAll(idle, "_", "-"), true, true},
		{"of nobody", "00000000-no-such-pod", false, false},
	} {
		if err := call(methodBegin, nil, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		var p programs
		if err := call(methodEnd, ours{[]string{c.pods}}, &p); err != nil {
			t.Fatal(err)
		}
		listed := slices.ContainsFunc(p.Users, func(u procfs.User) bool { return u.Name == spinner && u.CPUs > 0.1 })
		if p.Known != c.known || p.Users != nil && !c.known || listed != c.listed {
			t.Errorf("%s: %+v, want known %v, and %s among them: %v", c.name, p, c.known, spinner, c.listed)
		}
	}
}

// A monitor listens at the links by which packets go to other nodes, and tells frames with the mark from others.
func TestMonitorListens(t *testing.T) {
	mark := []byte("sixteen bytes ..")
	to := netip.MustParseAddr("127.0.0.1")
	if err := testnet.New(t).Do(func() error {
		m, err := newMonitor()
		if err != nil {
			return err
		}
		defer m.close()
		lo, err := m.links.ByName("lo")
		if err != nil {
			return err
		}
		if err := m.links.SetUp(lo.Index, true); err != nil {
			return err
		}
		if _, err := m.heard(); err == nil {
			t.Error("what nobody has listened for is no error")
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		send := func(text string) error {
			return unix.Sendto(fd, []byte(text), 0, &unix.SockaddrInet4{Port: 4789, Addr: to.As4()})
		}
		if err := m.tap(tapping{To: []netip.Addr{to, to}, Mark: []byte("another mark ...")}); err != nil { // nobody asks for it
			return err
		}
		if err := m.tap(tapping{To: []netip.Addr{to, to}, Mark: mark}); err != nil {
			return err
		}
		for _, text := range []string{"a" + string(mark), "b", string(mark) + "c"} {
			if err := send(text); err != nil {
				return err
			}
		}
		list, err := m.heard()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(f host.Frames) bool { return f.Port == 4789 })
		if i < 0 || list[i].Link != "lo" || list[i].Count != 3 || list[i].Marked != 2 {
			t.Errorf("%+v, want 3 frames on lo, 2 of them marked", list)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A DaemonSet has one pod on each node of the run, which goes with the scouts. Its containers have no rights.
func TestMonitorsOf(t *testing.T) {
	j := jobSpec{name: "nettoll-1-2-monitors", run: "1", image: "a/b:c", daemons: true}
	text, err := json.Marshal(j.monitorsOf([]string{"n1", "n2"}, false, object{"kind": "Job", "name": "scouts", "uid": "7"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"kind":"DaemonSet"`, `"hostNetwork":true`, `"hostPID":true`, `"command":["/nettoll","stay"]`, `"uid":"7"`,
		`"drop":["ALL"]`, `"allowPrivilegeEscalation":false`, `"runAsNonRoot":true`, `"automountServiceAccountToken":false`,
		`{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]},` +
			`{"matchFields":[{"key":"metadata.name","operator":"In","values":["n2"]}]}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	for _, more := range []string{`"privileged"`, `"add"`} {
		if strings.Contains(string(text), more) {
			t.Errorf("it has %s: %s", more, text)
		}
	}
	if text, err = json.Marshal(j.monitorsOf([]string{"n1"}, true, nil)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"capabilities":{"add":["NET_RAW"],"drop":["ALL"]}`, `"allowPrivilegeEscalation":false`, `"runAsUser":0`,
		`"runAsNonRoot":false`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("to listen: no %s in %s", want, text)
		}
	}
}

// Who may not have a monitor is told what helps.
func TestUnwatched(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{
			&kubectl.StatusError{Code: http.StatusForbidden, Reason: "Forbidden", Message: "no"},
			"monitor: nodes: no (403 Forbidden) (leave out monitor: nodes, or get the right to (nettoll doctor --cluster lists " +
				"rights))",
		},
		{
			errors.New(`daemon set "a" gets no pods: violates PodSecurity "restricted:latest"`),
			`monitor: nodes: daemon set "a" gets no pods: violates PodSecurity "restricted:latest" (leave out monitor: nodes, or ` +
				"name a namespace that enforces the Pod Security Standard privileged)",
		},
		{errors.New("exceeded quota"), "monitor: nodes: exceeded quota (leave out monitor: nodes)"},
	} {
		if got := unwatched(c.err); got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("%v, want %s", got, c.want)
		}
	}
}
