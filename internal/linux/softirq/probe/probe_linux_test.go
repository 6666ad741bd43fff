package probe

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/softirq"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/internal/testnet"
)

// holdEnv turns this test binary into a process that has the probe on and waits to be killed.
const holdEnv = "NETTOLL_TEST_HOLD_PROBE"

func TestMain(m *testing.M) {
	if os.Getenv(holdEnv) == "" {
		testnet.Main(m)
	}
	p, err := Load()
	if err == nil {
		err = p.On()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("on")
	time.Sleep(time.Hour) // select would be a deadlock, and Go ends on that
}

// probed loads a probe and maps its counters.
func probed(t *testing.T) (*Counter, *softirq.Times) {
	t.Helper()
	testnet.Root(t)
	p, err := Load()
	testnet.Skip(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	f, err := p.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	times, err := softirq.Map(f, runtime.NumCPU())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = times.Close() })
	return p, times
}

// flood sends datagrams over a veth, from a thread on one CPU, until the time is up. It returns how long that took, how
// long the thread ran, and how long it waited for a CPU.
func flood(t *testing.T, cpu int, length time.Duration) (packets int, wall, ran, waited time.Duration) {
	t.Helper()
	m := testnet.New(t)
	peer, err := netns.New(nil)
	testnet.Skip(t, err)
	defer peer.Close()
	up := func(name, address string) error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		l, err := h.ByName(name)
		if err != nil {
			return err
		}
		return errors.Join(h.SetUp(l.Index, true), h.AddAddress(l.Index, netip.MustParsePrefix(address)))
	}
	err = m.Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		if _, err := h.AddVeth(link.Veth{Name: "a", PeerName: "b", PeerNS: peer}); err != nil {
			return err
		}
		return up("a", "198.18.0.1/24")
	})
	testnet.Skip(t, err)
	var sink, source *net.UDPConn
	if err := netns.Do(int(peer.Fd()), func() (err error) {
		if err := up("b", "198.18.0.2/24"); err != nil {
			return err
		}
		sink, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(198, 18, 0, 2), Port: 9})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	if err := m.Do(func() (err error) {
		source, err = net.DialUDP("udp4", nil, sink.LocalAddr().(*net.UDPAddr))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	buf := make([]byte, 64)
	// The neighbour is known before the flood: until then, the kernel queues packets instead of sending them.
	if _, err := source.Write(buf); err != nil {
		t.Fatal(err)
	}
	_ = sink.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := sink.Read(buf); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // never unlocked: the thread is pinned
	if err := thread.Pin(cpu); err != nil {
		t.Fatal(err)
	}
	raw, err := source.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		before, began, waiting := thread.RunTime(), time.Now(), delay(t)
		for time.Since(began) < length {
			for range 64 {
				if _, err := unix.Write(int(fd), buf); err == nil {
					packets++
				}
			}
		}
		wall, ran, waited = time.Since(began), time.Duration(thread.RunTime()-before), delay(t)-waiting
	})
	return packets, wall, ran, waited
}

// delay returns how long this thread has waited on a run queue (Documentation/scheduler/sched-stats.rst).
func delay(t *testing.T) time.Duration {
	t.Helper()
	b, err := os.ReadFile("/proc/thread-self/schedstat")
	if err != nil {
		t.Fatal(err)
	}
	ns, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ns)
}

// counted reads from /proc/softirqs how often a CPU has run a vector.
func counted(t *testing.T, vector, cpu int) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/softirqs")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(b, []byte("\n"))
	n, err := strconv.ParseUint(strings.Fields(string(lines[1+vector]))[1+cpu], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Two ways to count agree: the kernel's own table of how often each vector ran, which is exact, and its ticks of time
// spent in softirqs, which are samples of 4 ms. Both cover the whole machine, including other work. A tick may be late
// because its CPU had interrupts off or was taken away. It is then charged to whatever runs when it arrives, often a
// softirq that is about to begin. The kernel that these tests usually have does not run the probe when a softirq
// interrupts PID 1 (docs/method.md), which may work much for a while. So only one of several floods has to agree, but
// for two things: the probe never counts more than the kernel, and misses no vector of the network.
func TestAgreesWithKernel(t *testing.T) {
	p, times := probed(t)
	if err := p.On(); err != nil {
		t.Fatal(err)
	}
	const floods = 4
	for range floods {
		// 100 samples: a standard error of 10 %
		if all, probe, ticks := compare(t, times); all && ticks > 0.6*probe && ticks < 1.4*probe {
			return
		}
	}
	t.Errorf("the runs of softirqs by the probe and by /proc/softirqs, or their time by the probe and by /proc/stat, "+
		"differ in %d of %d floods", floods, floods)
}

// compare floods for a second. It returns whether the probe has counted all runs, and how long softirqs took according
// to the probe and to the ticks of /proc/stat, in seconds.
func compare(t *testing.T, times *softirq.Times) (all bool, probe, ticks float64) {
	t.Helper()
	cpus := runtime.NumCPU()
	type reading struct {
		runs [3][softirq.Vectors][]uint64 // by the kernel, by the probe, by the kernel once more
		ns   uint64                       // of all vectors and CPUs
		stat procfs.CPUTime
	}
	read := func() (r reading) {
		var err error
		if r.stat, err = procfs.ReadCPUTime(); err != nil {
			t.Fatal(err)
		}
		for vector := range softirq.Vectors {
			for cpu := range cpus {
				r.runs[0][vector] = append(r.runs[0][vector], counted(t, vector, cpu))
				ns, runs := times.Vector(cpu, vector)
				r.ns += ns
				r.runs[1][vector] = append(r.runs[1][vector], runs)
				r.runs[2][vector] = append(r.runs[2][vector], counted(t, vector, cpu))
			}
		}
		return r
	}
	before := read()
	packets, wall, _, _ := flood(t, 0, time.Second)
	after := read()
	const slack = 20 // and 2 %
	all = true
	for vector := range softirq.Vectors {
		for cpu := range cpus {
			difference := func(last, first int) int64 {
				return int64(after.runs[last][vector][cpu] - before.runs[first][vector][cpu])
			}
			got, least, most := difference(1, 1), difference(0, 2), difference(2, 0)
			less, more := got < least-slack-least/50, got > most+slack+most/50
			if !less && !more {
				continue
			}
			all = false
			say := t.Logf
			if more || vector == softirq.NetRX || vector == softirq.NetTX {
				say = t.Errorf
			}
			say("vector %d on CPU %d was run %d times by the probe, %d to %d times by /proc/softirqs", vector, cpu, got, least,
				most)
		}
	}
	if runs := after.runs[1][softirq.NetRX][0] - before.runs[1][softirq.NetRX][0]; runs == 0 || packets == 0 {
		t.Errorf("%d packets over a veth, and %d runs of the vector that receives them", packets, runs)
	}
	probe, ticks = float64(after.ns-before.ns)/1e9, after.stat["softirq"]-before.stat["softirq"]
	t.Logf("softirqs in %v: %.3f s by the probe, %.2f s by the ticks of /proc/stat", wall, probe, ticks)
	return all, probe, ticks
}

// A flood over a veth is work for the receiving vector; an idle lab causes hardly any. Other programs may use the
// network in the meantime: one quiet moment is enough. Moments in which the kernel's own table says that others sent do
// not count, for half a minute at most.
func TestFloodAndIdle(t *testing.T) {
	p, times := probed(t)
	all := make([]int, runtime.NumCPU())
	for i := range all {
		all[i] = i
	}
	before := times.Net(all)
	time.Sleep(20 * time.Millisecond)
	if n := times.Net(all) - before; n != 0 {
		t.Errorf("%d ns were counted while the probe was off", n)
	}
	if err := p.On(); err != nil {
		t.Fatal(err)
	}
	runs := func() (n uint64) { // of the vectors of the network
		for _, cpu := range all {
			n += counted(t, softirq.NetRX, cpu) + counted(t, softirq.NetTX, cpu)
		}
		return n
	}
	before, ran := times.Net(all), runs()
	packets, wall, sending, _ := flood(t, 0, 200*time.Millisecond)
	soft := float64(times.Net(all) - before)
	busy, often := soft/float64(wall), float64(runs()-ran)/float64(wall)
	const least = 0.05 // of the time in which the flood had a CPU
	if soft < least*float64(sending) || packets == 0 {
		t.Errorf("a flood of %d packets, which ran for %v of %v, kept softirqs of the network busy for %v", packets, sending,
			wall, time.Duration(soft))
	}
	quiet, idle := busy, max(0.01, busy/10) // other tests send packets too, on all CPUs
	for tries, last := 0, time.Now().Add(30*time.Second); tries < 300 && quiet >= idle && time.Now().Before(last); {
		before, ran, began := times.Net(all), runs(), time.Now()
		time.Sleep(10 * time.Millisecond)
		took := float64(time.Since(began))
		quiet = min(quiet, float64(times.Net(all)-before)/took)
		if float64(runs()-ran)/took < often/10 {
			tries++
		}
	}
	t.Logf("softirqs of the network: %.3f cores under a flood, %.5f without", busy, quiet)
	if quiet >= idle {
		t.Errorf("without a flood softirqs of the network are still busy for %.4f cores", quiet)
	}
	if err := p.Off(); err != nil {
		t.Fatal(err)
	}
	before = times.Net(all)
	flood(t, 0, 20*time.Millisecond)
	if n := times.Net(all) - before; n != 0 {
		t.Errorf("%d ns were counted after the probe was switched off", n)
	}
}

// When the probe is switched on, a softirq that started before it was switched off must not count: it would include all
// the time in between.
func TestSwitching(t *testing.T) {
	p, times := probed(t)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				flood(t, 0, 20*time.Millisecond)
			}
		}
	}()
	all := []int{0}
	var on, counted time.Duration
	for range 20 {
		before, began := times.Net(all), time.Now()
		if err := errors.Join(p.On(), p.On()); err != nil { // the second call has no effect
			t.Error(err)
		}
		time.Sleep(5 * time.Millisecond)
		if err := p.Off(); err != nil {
			t.Error(err)
		}
		on += time.Since(began)
		counted += time.Duration(times.Net(all) - before)
		time.Sleep(20 * time.Millisecond)
	}
	close(stop)
	<-done
	if counted == 0 || counted > on {
		t.Errorf("%v in softirqs of one CPU during %v", counted, on)
	}
}

// CONFIG_IRQ_TIME_ACCOUNTING determines whether a thread's run time includes the softirqs that interrupt it
// (kernel/sched/core.c, update_rq_clock_task): what is missing from wall time is nothing, or exactly those.
func TestThreadTime(t *testing.T) {
	value, known := procfs.KernelOption("CONFIG_IRQ_TIME_ACCOUNTING")
	if !known {
		testnet.Skip(t, &linux.UnsupportedError{What: "read how the kernel was built", Missing: "CONFIG_IKCONFIG_PROC"})
	}
	p, times := probed(t)
	if err := p.On(); err != nil {
		t.Fatal(err)
	}
	before, away := times.Net([]int{0}), stolen(t)
	_, wall, ran, waited := flood(t, 0, 500*time.Millisecond)
	soft := time.Duration(times.Net([]int{0}) - before)
	away = stolen(t) - away
	apart := float64(wall-ran-waited-away) / float64(soft)
	t.Logf("of %v a thread ran %v and waited %v, and other machines had its CPU for %v; softirqs of the network took %v: "+
		"%.2f of them are not in its run time (IRQ_TIME_ACCOUNTING=%s)", wall, ran, waited, away, soft, apart, value)
	if (apart > 0.5) != (value == "y") {
		t.Errorf("%.2f of the softirqs are apart from the run time of the thread that they interrupt, and "+
			"CONFIG_IRQ_TIME_ACCOUNTING is %s", apart, value)
	}
}

// stolen returns how long CPU 0 was not there because the hypervisor gave it to others, in steps of 10 ms. It is 0 if
// the kernel does not subtract that from the run time of threads (kernel/sched/core.c, update_rq_clock_task).
func stolen(t *testing.T) time.Duration {
	t.Helper()
	if value, _ := procfs.KernelOption("CONFIG_PARAVIRT_TIME_ACCOUNTING"); value != "y" {
		return 0
	}
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	const steal = 8
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) > steal && fields[0] == "cpu0" {
			n, err := strconv.Atoi(fields[steal])
			if err != nil {
				t.Fatal(err)
			}
			return time.Duration(n) * 10 * time.Millisecond
		}
	}
	t.Fatalf("/proc/stat has no times of CPU 0: %s", b)
	return 0
}

// ids returns the eBPF programs, maps and links that a process holds, from its open files.
func ids(t *testing.T, pid int) map[string]uint32 {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]uint32{}
	for _, path := range files {
		b, _ := os.ReadFile(path) // it may be closed by now
		for line := range strings.Lines(string(b)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			if id, err := strconv.ParseUint(value, 10, 32); err == nil &&
				(key == "prog_id" || key == "map_id" || key == "link_id") {
				held[fmt.Sprintf("%s %d", key, id)] = uint32(id)
			}
		}
	}
	return held
}

// Nothing of a killed process is left.
func TestKilled(t *testing.T) {
	testnet.Root(t)
	p, err := Load()
	testnet.Skip(t, err)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), holdEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	held := ids(t, cmd.Process.Pid)
	const programs, maps, links = 2, 1, 2
	if len(held) != programs+maps+links {
		t.Errorf("it holds %v, want %d programs, %d map and %d links", held, programs, maps, links)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	began := time.Now()
	for name, id := range held {
		for there(name, id) {
			if time.Since(began) > 10*time.Second { // the kernel removes it after a grace period of RCU
				t.Errorf("%s is still there %v after its process was killed", name, time.Since(began))
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	t.Logf("all gone after %v", time.Since(began))
}

// there reports whether the kernel still has a program or map. A link attaches its program, and is gone with it.
func there(name string, id uint32) bool {
	switch {
	case strings.HasPrefix(name, "prog_id"):
		p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
		_ = p.Close()
		return !errors.Is(err, os.ErrNotExist)
	case strings.HasPrefix(name, "map_id"):
		m, err := ebpf.NewMapFromID(ebpf.MapID(id))
		_ = m.Close()
		return !errors.Is(err, os.ErrNotExist)
	}
	return false
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err     error
		missing string
	}{
		{unix.EPERM, "CAP_BPF and CAP_PERFMON outside of any user namespace"},
		{fmt.Errorf("load: %w", unix.EACCES), "CAP_BPF and CAP_PERFMON outside of any user namespace"},
		{unix.ENOSYS, "eBPF on raw tracepoints"},
		{ebpf.ErrNotSupported, "eBPF on raw tracepoints"},
		{unix.ENOMEM, ""},
	} {
		err := explain("do it", c.err)
		u, ok := errors.AsType[*linux.UnsupportedError](err)
		if ok != (c.missing != "") || ok && (u.Missing != c.missing || u.Hint == "") || !errors.Is(err, c.err) {
			t.Errorf("%v: got %v", c.err, err)
		}
	}
}

// Reading allocates no memory: it happens between two trials.
func TestReading(t *testing.T) {
	_, times := probed(t)
	cpus := []int{0, 1, 1000} // a CPU that does not exist counts nothing
	var sum atomic.Int64
	if n := testing.AllocsPerRun(100, func() { sum.Add(times.Net(cpus)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
