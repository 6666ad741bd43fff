package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime/dockertest"
)

// Whenever the controller is killed, only its records are left after a second, and what the next command removes. After
// each kill, that command removes all of it. The records are complete up to the block that was being measured.
func TestKilledAtAnyMoment(t *testing.T) {
	testnet.Root(t)
	const (
		span  = 4200 * time.Millisecond // shorter than the run, which measures 3 s and builds and removes 5 generations
		first = 350 * time.Millisecond  // the first generation is being built
	)
	before := outside(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, s := range storms() {
		if testing.Short() {
			s.moments = min(s.moments, 6)
		}
		t.Run(s.name, func(t *testing.T) {
			testnet.Turn(t)
			var theirs *dockertest.Daemon
			if s.machine {
				theirs = dockertest.Start(t)
				t.Cleanup(theirs.Inhabit()) // checks after the kills, and before the daemon ends
			}
			for _, program := range s.programs {
				testnet.Program(t, program, program)
			}
			for i := range s.moments {
				// Two thirds of the kills are spread over the run, one third over its beginning.
				at := time.Duration((float64(i) + random.Float64()) / float64(s.moments) * float64(span))
				if i%3 == 0 {
					at = time.Duration(random.Float64() * float64(first))
				}
				// A run whose labs take longer to build than span is killed late in each of its generations, too.
				m := moment{at: at}
				if late := at > span/2; late && s.generations > 0 {
					m.generation, m.after = 1+i%s.generations, time.Duration(random.Float64()*float64(time.Second))
				} else if late && s.networks != "" { // building all labs of the default experiment may take that long
					m.generation = 1
				}
				t.Run(m.String(), func(t *testing.T) {
					t.Parallel()
					h := newHome(t, s.user)
					if theirs != nil {
						h.env, h.docker = append(h.env, "DOCKER_HOST="+theirs.Host), theirs
					}
					killed(t, h, s, m, before)
					h.leavesNothing(before)
				})
			}
		})
	}
	as(t, before, outside(t))
}

// leavesNothing has the next command of the home remove what is left of its killed run, and checks that it has.
func (h *home) leavesNothing(before []string) {
	h.t.Helper()
	names := h.names()
	if said := h.run("clean"); said.status != 0 {
		h.t.Errorf("clean exits with %d: %s", said.status, said.stderr)
	}
	if left := h.left(names); len(left) > 0 {
		h.t.Errorf("after the next command there still are\n%s", strings.Join(left, "\n"))
	}
	if text := h.journals(); text != "" {
		h.t.Errorf("after the next command there still is a journal:\n%s", text)
	}
	as(h.t, before, outside(h.t)) // what no journal names: it is of this run, or of one beside it
}

// as checks that there is outside of the hosts what was before. What runs beside this test has may come and go.
func as(t *testing.T, before, after []string) {
	t.Helper()
	before = slices.DeleteFunc(slices.Clone(before), func(s string) bool { // labs of others may have ended
		return strings.HasPrefix(s, "cgroup ") && !slices.Contains(after, s)
	})
	end := time.Now().Add(20 * time.Second)
	after = slices.DeleteFunc(after, func(s string) bool { // or begun
		path, is := strings.CutPrefix(s, "cgroup ")
		return is && !slices.Contains(before, s) && inUse(path, time.Until(end))
	})
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("links, mounts, files and cgroups outside of the hosts (-before +after):\n%s", diff)
	}
}

// The next run removes what a killed one has left on the machine, also if it takes nothing itself that outlives it.
func TestRunTidies(t *testing.T) {
	testnet.Root(t)
	testnet.Program(t, "runc", "runc")
	before := outside(t)
	s := start(t, "--network", "bridge", "--runtime", "oci", "--time", "5s")
	s.blocks(1)
	if err := unix.Kill(s.cmd.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.wait(5 * soon)
	s.leavesNothing(time.Now())
	left := slices.DeleteFunc(outside(t), func(s string) bool {
		return !strings.HasPrefix(s, "cgroup ") || slices.Contains(before, s)
	})
	if len(left) == 0 {
		t.Fatal("the killed run left no cgroups: this shows nothing")
	}
	if next := start(t, "--network", "bridge", "--time", "1s"); next.wait(patience) == 1 {
		t.Fatalf("the next run: %s", next.stderr.String())
	}
	for _, what := range outside(t) {
		if slices.Contains(left, what) {
			t.Errorf("after the next run there still is %s", what)
		}
	}
}

// storm is a run that is killed again and again.
type storm struct {
	name     string
	networks string   // the value of --network; "" for those of the default experiment
	workload string   // the value of --workload; "" likewise
	runtime  string   // the value of --runtime; "" likewise
	encrypt  string   // the value of --encryption, across hosts; "" likewise
	programs []string // those that it needs
	steps    []string // kinds of steps that the journal has once all labs have stood
	machine  bool     // containers are those of a daemon that stands for the machine's
	user     *syscall.Credential
	moments  int
	// generations are those in which late kills come, spread evenly over them. With 0, late kills come in the first one.
	generations int
}

// moment is when a run is killed: a time after its begin and, if generation is not 0, when it has also measured a block
// of that generation, and after has passed since. On a busy machine that is later.
type moment struct {
	at         time.Duration
	generation int
	after      time.Duration
}

func (m moment) String() string {
	if m.after == 0 {
		return m.at.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%v after a block of generation %d", m.after.Round(time.Millisecond), m.generation)
}

// storms lists the runs. A part that leaves more than processes, links and namespaces belongs here.
func storms() []storm {
	runtimes := []string{"runc", "lxc-start", "dockerd", "podman"}
	// CI has 5 moments of each storm with containers. In the last one at least, all labs have stood: Docker's and LXC's.
	between, contained, generations := 3, 5, 0
	if testnet.IsSlow() {
		between, contained, generations = 18, 20, 4 // the fifth is the last one, and may end before it is killed
	}
	return []storm{
		{name: "bridge", networks: "bridge", moments: 9},
		{name: "streams", networks: "bridge", workload: "tcp-stream", moments: 6},
		{name: "default", moments: 5},
		{
			name: "containers", networks: "bridge", runtime: "oci,podman", programs: runtimes, moments: contained,
			generations: generations, steps: []string{`"oci-container"`, `"podman-container"`},
		},
		{
			name: "daemons", networks: "bridge", runtime: "lxc,docker,containerd", programs: runtimes, moments: contained,
			generations: generations,
			steps:       []string{`"lxc-container"`, `"docker-container"`, `"containerd-container"`},
		},
		{
			name: "the machine's Docker", networks: "bridge", runtime: "docker(use=machine)", machine: true, moments: 9,
			steps: []string{`"docker-container"`, `"docker-machine"`},
		},
		{
			name: "between hosts", networks: "bridge", encrypt: "tinc,openvpn,ipsec,wireguard", moments: between,
			programs: []string{"tincd", "openvpn", "charon-systemd"},
		},
		{name: "default of an ordinary user", user: ordinary(), moments: 7},
	}
}

// Nothing is left even if the processes of the hosts hang.
func TestKilledWhileHostsHang(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := start(t, "--time", "10s")
	s.measuring()
	namespaces := s.namespaces()
	for _, m := range s.members() {
		if m.pid == s.cmd.Process.Pid {
			continue
		}
		if err := unix.Kill(m.pid, unix.SIGSTOP); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
	if err := unix.Kill(s.cmd.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.wait(5 * soon)
	s.leavesNothing(s.end)
	namespaces.areGone(t, now)
}

// killed kills a run at that moment. Before is what there was outside of the hosts.
func killed(t *testing.T, h *home, of storm, m moment, before []string) {
	args := []string{"--time", "3s"}
	if of.networks != "" {
		args = append(args, "--network", of.networks)
	}
	if of.workload != "" {
		args = append(args, "--workload", of.workload)
	}
	if of.runtime != "" {
		args = append(args, "--runtime", of.runtime)
	}
	if of.encrypt != "" {
		args = append(args, "--encryption", of.encrypt, "--placement", "cross-host", "--baseline", "host")
	}
	s := prepare(t, filepath.Join(reachable(t), "run"), args...)
	s.cmd.SysProcAttr.Credential = of.user
	s.cmd.Env = append(s.cmd.Env, h.env...)
	s.begin()
	time.Sleep(m.at)
	if m.generation > 0 {
		s.until("a block of the generation", func() bool {
			log, _ := s.records()
			return len(log.Blocks) > 0 && log.Blocks[len(log.Blocks)-1].Generation >= m.generation
		})
		time.Sleep(m.after)
	}
	namespaces := s.namespaces()
	if err := unix.Kill(s.cmd.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatalf("kill: %v", err)
	}
	now := time.Now()
	if status := s.wait(5 * soon); status != 128+int(unix.SIGKILL) {
		t.Fatalf("it ended with exit status %d before it was killed: this shows nothing", status)
	}
	journal, end := h.journals(), s.end
	if s.frozen(now) {
		t.Log("a runtime was killed while it had frozen a container: the next command ends that")
		h.leavesNothing(before)
		now = time.Now()
		end = now
	}
	s.leavesNothing(end)
	namespaces.areGone(t, now)
	if m.generation > 0 { // all labs have stood
		contains(t, "the journal", journal, of.steps...)
	}

	log, torn := s.records()
	trials := map[int]int{}
	for _, r := range log.Trials {
		trials[r.Block]++
	}
	for _, b := range log.Blocks {
		if want := trials[log.Blocks[0].Block]; trials[b.Block] != want || want == 0 {
			t.Errorf("block %d is there with %d trials, want %d", b.Block, trials[b.Block], want)
		}
	}
	if m.generation > 0 && len(log.Blocks) == 0 {
		t.Errorf("after %v there is no block any more", m)
	}
	t.Logf("%d namespaces, %d blocks, torn: %v", len(namespaces), len(log.Blocks), torn)

	said := nettoll(t, "report", s.dir)
	switch {
	case len(log.Blocks) > 0:
		if said.status != 0 {
			t.Errorf("report exits with %d: %s", said.status, said.stderr)
		}
		contains(t, "report", said.stdout, "baseline", "bridge")
	case said.status == 0:
		// It shows what was recorded, such as proofs.
	case said.status != 1 || !strings.HasPrefix(said.stderr, "nettoll: ") || strings.Contains(said.stderr, "panic"):
		t.Errorf("report exits with %d: %s", said.status, said.stderr)
	}
}

// frozen waits until no process of a killed session is left, or only some that were killed and do not end, because their
// control group (v1) is frozen. For such ones it returns true.
func (s *session) frozen(end time.Time) bool {
	s.t.Helper()
	for ; time.Since(end) < soon; time.Sleep(5 * time.Millisecond) {
		left := s.members()
		if len(left) == 0 {
			return false
		}
		if !slices.ContainsFunc(left, func(m member) bool { return !m.killed() || !m.frozen() }) {
			return true
		}
	}
	return false
}

// frozen reports whether the process is in a frozen control group of v1.
func (m member) frozen() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", m.pid))
	if err != nil {
		return false // it has ended
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && fields[1] == "freezer" {
			state, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/freezer", fields[2], "freezer.state"))
			return err == nil && strings.TrimSpace(string(state)) == "FROZEN"
		}
	}
	return false
}

// namespaceKinds are the kinds of namespaces of a host. PID and user namespaces are left out: they live as long as
// their processes, even dead ones, until the machine's PID 1 has reaped these.
const namespaceKinds = "net mnt uts ipc"

// namespaces are handles of a session's namespaces, by names such as "net:[4026531840]".
type namespaces map[string]unix.FileHandle

// namespaces returns the namespaces that the session's processes are in, and those of its containers. A handle does not
// keep a namespace alive, unlike an open file. Before Linux 6.18 namespaces have no handles; the test then only checks
// that no process is left.
func (s *session) namespaces() namespaces {
	own := map[string]bool{}
	for kind := range strings.FieldsSeq(namespaceKinds) {
		name, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			s.t.Fatal(err)
		}
		own[name] = true
	}
	found := namespaces{}
	add := func(path, name string) {
		if own[name] || name == "" {
			return
		}
		handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
		if err == nil { // it may have ended
			found[name] = handle
		}
	}
	for _, m := range s.members() {
		for kind := range strings.FieldsSeq(namespaceKinds) {
			path := fmt.Sprintf("/proc/%d/ns/%s", m.pid, kind)
			name, _ := os.Readlink(path)
			add(path, name)
		}
		standing, _ := filepath.Glob(filepath.Join("/proc", fmt.Sprint(m.pid), "root", "run", "netns", "*"))
		for _, path := range standing {
			var at unix.Stat_t
			if unix.Stat(path, &at) == nil {
				add(path, fmt.Sprintf("net:[%d]", at.Ino))
			}
		}
	}
	return found
}

// areGone checks that the kernel has none of the namespaces a second after the end. It goes by handles, because the
// numbers in names are used again at once. On a busy machine the kernel may still be removing namespaces that nobody
// holds, or ending processes that hold them, so these get more time.
func (n namespaces) areGone(t *testing.T, end time.Time) {
	t.Helper()
	for {
		var left []string
		for name, handle := range n {
			if exists(handle) {
				left = append(left, name)
			}
		}
		if len(left) == 0 {
			return
		}
		if waited := time.Since(end); waited > soon {
			if holders := holders(t, left); len(holders) > 0 || waited > 5*soon {
				slices.Sort(left)
				t.Errorf("%v after its end these namespaces are left: %v; they are held by %v", waited, left, holders)
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// nsfsRoot marks a handle as that of a namespace: FD_NSFS_ROOT, include/uapi/linux/fcntl.h of Linux 6.18.
const nsfsRoot = -10003

func exists(handle unix.FileHandle) bool {
	fd, err := unix.OpenByHandleAt(nsfsRoot, handle, unix.O_RDONLY)
	if err != nil {
		return !errors.Is(err, unix.ESTALE)
	}
	_ = unix.Close(fd)
	return true
}

// holders lists the processes that are in one of these namespaces or have it open, and its mounts. A process that the
// kernel is ending is none, as in leavesNothing: it has no environment any more, and still closes its files.
func holders(t *testing.T, these []string) []string {
	t.Helper()
	var found []string
	links, _ := filepath.Glob("/proc/[0-9]*/ns/*")
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, path := range slices.Concat(links, files) {
		if name, err := os.Readlink(path); err == nil && slices.Contains(these, name) && !ending(strings.Split(path, "/")[2]) {
			found = append(found, path+" → "+name)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && slices.Contains(these, fields[3]) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// ending reports whether the kernel is ending a process, or it has ended: PF_EXITING, include/linux/sched.h, in the
// ninth field of proc_pid_stat(5).
func ending(pid string) bool {
	const exiting = 0x4
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return true
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third on
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return err == nil && flags&exiting != 0
}

// A process that runs holds what it has; a killed one does not, although it is there until somebody waits for it.
func TestEnding(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	if ending(pid) {
		t.Error("a process that sleeps is ending")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	for began := time.Now(); !ending(pid); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Error("a killed process is not ending")
			break
		}
	}
	if _, err := os.Stat("/proc/" + pid); err != nil {
		t.Errorf("nobody has waited for the process yet: %v", err)
	}
	_ = cmd.Wait() // it was killed
}

// inUse reports whether a control group has a process, or is removed within that time: a run that has not ended has
// made it. One that stays and has no process was left behind.
func inUse(path string, within time.Duration) bool {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		there, lives := false, false
		_ = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error { // it may be removed meanwhile
			if err != nil || !d.IsDir() {
				return nil
			}
			there = true
			processes, _ := os.ReadFile(filepath.Join(at, "cgroup.procs"))
			lives = lives || len(bytes.TrimSpace(processes)) > 0
			return nil
		})
		if lives || !there {
			return true
		}
		if time.Since(began) > within {
			return false
		}
	}
}

// A control group that was left behind is not taken for one of another run.
func TestInUse(t *testing.T) {
	testnet.Root(t)
	above := "/sys/fs/cgroup"
	if _, err := os.Stat(above + "/pids"); err == nil {
		above += "/pids"
	}
	group := filepath.Join(above, fmt.Sprintf("test-%d", os.Getpid()))
	for _, path := range []string{group, group + "/host"} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
	}
	if inUse(group, 100*time.Millisecond) {
		t.Error("a group without a process is in use")
	}
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	procs := filepath.Join(group, "host", "cgroup.procs")
	if err := os.WriteFile(procs, []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
		t.Error(err)
	}
	if !inUse(group, 100*time.Millisecond) {
		t.Error("a group with a process below it is not in use")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
	time.AfterFunc(50*time.Millisecond, func() { _, _ = os.Remove(group+"/host"), os.Remove(group) })
	if !inUse(group, 10*time.Second) {
		t.Error("a group that is removed was left behind")
	}
}

// outside lists what a run could leave here besides processes: links, mounts, and cgroups with its name.
func outside(t *testing.T) []string {
	t.Helper()
	var found []string
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		found = append(found, "link "+l.Name)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		found = append(found, "mount "+strings.TrimSpace(line))
	}
	for _, below := range []string{"/*", "/*/*"} { // keys, sockets and logs of programs: each host has its own
		files, err := filepath.Glob(host.DefaultRun + below)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			name := strings.TrimPrefix(f, host.DefaultRun+"/") // the first run makes one, and the first cleaning the other
			if name != "journals" && name != "journals/none" {
				found = append(found, "file "+f)
			}
		}
	}
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), "nettoll") {
			found = append(found, "cgroup "+path)
		}
		return nil // others' cgroups come and go
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
