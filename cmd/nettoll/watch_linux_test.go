package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/dump"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
)

var (
	plants = flag.Int("plants", 1, "how many runs each leak of TestWatch is planted in")
	clean  = flag.Int("clean", 1, "how many runs of five generations TestWatchClean looks for false alarms in")
)

// A planting is a leak that somebody else plants in a lab while it is measured, and takes away again.
type planting struct {
	name  string
	plant string // commands of sh(1) on the first host of a lab
	undo  string // "" if it cannot be taken away
	// inside plants it in the namespace of the first source, and by instead of commands.
	inside bool
	by     func(pid int) (undo func() error, err error) // of a process of the lab's first host

	stands string // what is said of it, in part
	passed string // and when it came and went; "" if that leaves no trace
	turns  int    // in how many audits it is noticed; 0: in the next one
	opens  bool   // what the filter refuses may pass: a sample after the audit may notice it before the next audit does
}

// rules names the table and the chain of a filter by nftables.
const rules = `t=$(nft list tables | head -1 | cut -d' ' -f2-); c=$(nft list table $t | sed -n 's/^\tchain \(.*\) {/\1/p' | head -1); `

func plantings() []planting {
	return []planting{
		{
			name: "an accept rule", plant: rules + "nft insert rule $t $c accept",
			undo:   rules + "nft delete rule $t $c handle $(nft -a list chain $t $c | sed -n 's/^\t*accept # handle //p')",
			stands: "added (accept everything)", passed: "added (accept everything) and removed again", opens: true,
		},
		{
			name: "a flushed chain", plant: rules + "nft flush chain $t $c", undo: rules + "nft add rule $t $c drop",
			stands: ": removed (it was", passed: "added (drop everything)", opens: true,
		},
		{
			name: "a second veth", plant: "ip link add leak0 type veth peer name leak1", undo: "ip link del leak0",
			stands: "link leak0: added (veth", passed: "link leak0: added (veth",
		},
		{
			name:  "a port of the bridge",
			plant: "ip link add port0 type veth peer name port1; ip link set port0 master br0 up",
			undo:  "ip link del port0", stands: "link port0: added (veth", passed: "link port0: added (veth",
		},
		{
			name: "a sysctl", plant: "echo 1 >/proc/sys/net/ipv4/conf/all/forwarding", undo: "echo 0 >/proc/sys/net/ipv4/conf/all/forwarding",
			stands: "net.ipv4.conf.all.forwarding: 0 → 1", passed: "net.ipv4.conf.all.forwarding: 0 → 1 → 0",
		},
		{
			name: "a route around", inside: true, plant: "ip route add 10.9.0.0/16 dev eth0", undo: "ip route del 10.9.0.0/16 dev eth0",
			stands: "route to 10.9.0.0/16, table main: added", passed: "route to 10.9.0.0/16, table main: added",
		},
		{
			name: "a neighbour rewritten", inside: true,
			plant:  "ip neigh replace $(ip -4 neigh | head -1 | cut -d' ' -f1) lladdr 02:00:00:00:00:66 dev eth0 nud reachable",
			stands: "→ 02:00:00:00:00:66",
		},
		{
			name: "a policy of IPsec", plant: "ip xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir out",
			undo:   "ip xfrm policy delete src 10.1.0.0/16 dst 10.2.0.0/16 dir out",
			stands: "policy of IPsec, out, from 10.1.0.0/16 to 10.2.0.0/16: added", passed: "policy of IPsec, out",
		},
		{
			name: "IPv6 opened", inside: true, plant: "ip -6 addr add fd00:66::1/64 dev eth0 nodad",
			undo: "ip -6 addr del fd00:66::1/64 dev eth0", stands: "address fd00:66::1/64 of eth0: added",
			passed: "address fd00:66::1/64 of eth0: added",
		},
		{
			name: "another table of the older kind", plant: "iptables-legacy -I FORWARD -j ACCEPT",
			undo: "iptables-legacy -D FORWARD -j ACCEPT", stands: "table filter of iptables: added",
			passed: "table filter of iptables: added",
		},
		{
			name: "a set", plant: "ipset create leak hash:ip; ipset add leak 10.1.1.1", undo: "ipset destroy leak",
			stands: "set leak: added (1 entries",
		},
		{
			name: "a filter of tc", plant: "tc qdisc add dev vsrc0 clsact", undo: "tc qdisc del dev vsrc0 clsact",
			stands: "of vsrc0: added (clsact", passed: "of vsrc0: added (clsact",
		},
		{
			name: "a container's link in another namespace", inside: true, plant: "ip link set eth0 netns $PID",
			stands: "link eth0: removed", undo: "",
		},
		{
			name:   "a process from outside",
			plant:  "nsenter --target $PID --pid sleep 600 </dev/null >/dev/null 2>&1 &", // ends with the lab
			stands: "(sleep): came from outside of the host",
		},
		{
			name:   "a process from outside whose parent has ended",
			plant:  "nsenter --target $PID --pid sh -c 'tail -f /dev/null </dev/null >/dev/null 2>&1 &'",
			stands: "(tail): came from outside of the host",
		},
		{
			name:   "a namespace in the place of another",
			plant:  "nsenter --target $PID --pid --mount mount --bind /proc/self/ns/net /run/netns/src0",
			stands: "namespace src0: another one stands in its place",
		},
		{
			name: "a server of somebody else", by: func(int) (func() error, error) {
				l, err := net.Listen("tcp", "127.0.0.1:7777")
				if err != nil {
					return nil, err
				}
				return l.Close, nil
			}, stands: "socket tcp 127.0.0.1 port 7777: opened by a process that is not of this host", turns: 5,
		},
		{
			name: "an ear of somebody else", by: func(int) (func() error, error) {
				fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC,
					int(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})))
				return func() error { return unix.Close(fd) }, err
			}, stands: "socket packet, protocol 0x0003, number ", turns: 5,
		},
		{
			name: "a back door of somebody else", by: func(int) (func() error, error) {
				l, err := net.Listen("unix", "@door")
				if err != nil {
					return nil, err
				}
				return l.Close, nil
			}, stands: "socket unix, @door, number ", turns: 5,
		},
	}
}

// Each leak that is planted in mid-run from outside is noticed by the end of its block, by name, and the run says so
// with exit status 4, whether it stands or is taken away again within 0.3 s.
func TestWatch(t *testing.T) {
	testnet.Root(t)
	for _, program := range [][2]string{
		{"nsenter", "util-linux"},
		{"ip", "iproute2"},
		{"tc", "iproute2"},
		{"nft", "nftables"},
		{"iptables-legacy", "iptables"},
		{"ipset", "ipset"},
		{"conntrack", "conntrack"},
	} {
		testnet.Program(t, program[0], program[1])
	}
	all := plantings()
	var passing []planting
	for i, p := range all {
		if slices.ContainsFunc(all[:i], func(q planting) bool { return q.stands == p.stands }) {
			t.Fatalf("what is said of %s is said of another leak, too, which may have been planted earlier", p.name)
		}
		if p.passed != "" {
			p.stands = p.passed
			passing = append(passing, p)
		} else {
			t.Logf("not taken away again within the block: %s", p.name)
		}
	}
	for i := range all {
		all[i].undo = ""
	}
	ebpf := []planting{{name: "a program taken away", by: detach, stands: "programs at tcx", opens: true}}
	flow := []planting{{
		name: "a connection that no rule allows", by: enter, stands: "connections entered by programs: ", opens: true,
	}}
	other := []planting{{name: "another program for a while", by: attach, stands: "programs at tcx"}}
	for _, c := range []struct {
		name, filter string
		list         []planting
	}{
		{"that stands", "nftables: {", all},
		{"that comes and goes", "nftables: {", passing},
		{"a program", "ebpf: {", ebpf},
		{"another program", "ebpf: {", other},
		{"a connection", "nftables: {stateful: true, ", flow},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for range *plants {
				w := &watchRun{list: slices.Clone(c.list), seen: map[int]int{}, began: time.Now()}
				w.session = start(t, experimentOf(t, c.filter, len(c.list)))
				w.plantAll()
			}
		})
	}
}

// spare is how many more labs there are than leaks: one that is planted between the last audit of a generation and the
// proof after it costs the lab and is planted again.
const spare = 4

// experimentOf writes an experiment with labs for so many leaks, all of which have a filter, and their baseline. The
// filter is the beginning of one, up to the number of its rules.
func experimentOf(t *testing.T, filter string, leaks int) string {
	t.Helper()
	text := "name: leaks\nbaseline: {network: host}\nfactors: {placement: [same-host]}\n" +
		"workloads: [{udp-rr: {mode: wait}}]\ndesign: {time: 90s}\nstacks:\n"
	for i := range leaks + spare {
		text += fmt.Sprintf("  - {name: lab%d, network: bridge, filter: {%srules: %d}}}\n", i+1, filter, i+1)
	}
	path := filepath.Join(t.TempDir(), "leaks.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A watchRun is a run with a lab for each planting.
type watchRun struct {
	*session
	list    []planting
	lives   []planted
	used    []int       // processes of labs in which something was planted
	seen    map[int]int // how many blocks there were when the process of a lab was seen first
	found   int
	samples int       // failed claims of samples that are attributed to a planting
	began   time.Time // before the run
	again   int       // plantings in labs that ended before a block did
}

// planted is a planting in a lab.
type planted struct {
	planting
	pid, blocks int // the lab's worker, and how many blocks there had been before it was planted
	after       int // and afterwards
	undo        func() error
	// ended is when the last of the blocks before had ended, in s since the run began, and at when the leak had been
	// planted, since before the run began.
	ended, at float64
}

// plantAll plants one leak in each lab, and wants each of them to be named.
func (w *watchRun) plantAll() {
	w.t.Helper()
	w.measuring()
	wanted, ended := len(w.list), false
	for running := true; running; {
		select {
		case <-w.ended:
			running = false
		case <-time.After(100 * time.Millisecond): // reading the records takes CPU time from the run
		}
		log := w.look(running)
		switch {
		case running && w.t.Failed():
			_ = w.cmd.Process.Kill() // there is no more to see
		case ended:
		case running && len(w.list)+len(w.lives) == 0:
			ended = true
			_ = w.cmd.Process.Signal(os.Interrupt) // the labs that are left have nothing to show
		case running:
			w.plantNext(log)
		}
	}
	for _, p := range w.lives {
		w.t.Errorf("%s was not noticed before the run ended", p.name)
	}
	if w.found != wanted {
		w.t.Errorf("%d of %d leaks were noticed, left: %+v", w.found, wanted, w.list)
	}
	if status := w.wait(patience); status != 4 && status != 130 {
		w.t.Errorf("exit status %d, want 4, or 130 if it was interrupted\n%s", status, w.stderr.String())
	}
	contains(w.t, "stdout", oneLine(w.stdout.String()), "proof failed")
	w.t.Logf("%d of %d leaks were noticed, each within its block; %d labs ended before a block did", w.found, wanted, w.again)
}

// look finds out which leaks were noticed, and which were not although a block has ended. It returns the records.
func (w *watchRun) look(running bool) *measure.Log {
	gone := map[int]bool{} // before the records are read: what was found in a lab is written before the lab ends
	for _, p := range w.lives {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", p.pid))
		gone[p.pid] = err != nil
	}
	log, _ := w.records()
	var said []measure.Proof
	samples := 0
	for _, p := range log.Proofs {
		switch {
		case p.OK:
		case p.Name == proof.Watched:
			said = append(said, p)
		case p.Name == proof.Sampled:
			samples++
		}
	}
	w.lives = slices.DeleteFunc(w.lives, func(p planted) bool {
		i := slices.IndexFunc(said, func(s measure.Proof) bool { return strings.Contains(s.Detail, p.stands) })
		noticed := i >= 0
		if noticed {
			w.placed(p, said[i])
		}
		if !noticed && p.opens && samples > w.samples {
			noticed, w.samples = true, w.samples+1
		}
		// a block that began after it was planted has ended
		after := len(log.Blocks) - p.after
		switch {
		case noticed:
			w.found++
		case after > 2+p.turns && running && !gone[p.pid]:
			w.t.Errorf("%s was not noticed %d blocks later, said is: %+v", p.name, after, said)
		case gone[p.pid] && running:
			w.again++
			w.list = append(w.list, p.planting)
		default:
			return false
		}
		if p.undo != nil {
			_ = p.undo() // its lab may have ended
		}
		return true
	})
	return log
}

// placed wants what was noticed to be placed where the leak was planted, in the time between two audits: in the last block
// that had ended, if its audit was still to come, or in a later one. Audits look at some things in turns: those may have
// been there at the last audit.
func (w *watchRun) placed(p planted, found measure.Proof) {
	if len(found.Touched) != 2 || found.Touched[0] > found.Touched[1] || found.Touched[1] < p.blocks-1 ||
		found.Until < p.ended || p.turns == 0 && found.Since > p.at || found.Since >= found.Until {
		w.t.Errorf("%s was planted after %d blocks, %.3f to %.3f s after the run began, and is said to be in blocks %v, "+
			"between %.3f and %.3f s", p.name, p.blocks, p.ended, p.at, found.Touched, found.Since, found.Until)
	}
}

// plantNext plants the next leak in a lab in which there is none.
func (w *watchRun) plantNext(log *measure.Log) {
	if len(w.list) == 0 || len(log.Blocks) == 0 {
		return
	}
	for _, m := range w.members() {
		if len(m.args) < 4 || m.args[1] != "worker" || m.args[3] != "source@host1" || slices.Contains(w.used, m.pid) ||
			!slices.Contains(m.links(), "br0") {
			continue
		}
		first, known := w.seen[m.pid]
		if !known {
			w.seen[m.pid] = len(log.Blocks)
		}
		if !known || first == len(log.Blocks) {
			continue // it may not be watched yet: what is planted while a lab is built is part of it
		}
		w.used = append(w.used, m.pid)
		last := log.Blocks[len(log.Blocks)-1]
		p := planted{
			planting: w.list[0], pid: m.pid, blocks: len(log.Blocks), ended: last.Start + last.Duration,
		}
		if err := p.do(); err != nil {
			w.t.Logf("in a lab that ends: %s: %v", p.name, err)
			continue
		}
		p.at = time.Since(w.began).Seconds()
		log, _ = w.records()
		p.after = len(log.Blocks)
		w.list, w.lives = w.list[1:], append(w.lives, p)
		return
	}
}

// do plants the leak from outside, and takes it away again if it is one that passes.
func (p *planted) do() error {
	space := fmt.Sprintf("/proc/%d/ns/net", p.pid)
	if p.inside {
		space = filepath.Join("/proc", strconv.Itoa(p.pid), "root", "run/netns/src0")
	}
	if p.by != nil {
		ns, err := os.Open(space)
		if err != nil {
			return err
		}
		defer ns.Close()
		return netns.Do(int(ns.Fd()), func() (err error) {
			p.undo, err = p.by(p.pid)
			return err
		})
	}
	sh := func(text string) error {
		cmd := exec.Command("nsenter", "--net="+space, "sh", "-ec", text)
		cmd.Env = append(os.Environ(), fmt.Sprintf("PID=%d", p.pid))
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", text, err, said)
		}
		return nil
	}
	if err := sh(p.plant); err != nil || p.planting.undo == "" {
		return err
	}
	return sh(p.planting.undo)
}

// hooks calls f for each program at tcx of the links of the namespace of the calling thread.
func hooks(f func(index int, at ebpf.AttachType, p link.AttachedProgram) error) error {
	links, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return err
	}
	n := 0
	for _, l := range links {
		for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			r, err := link.QueryPrograms(link.QueryOptions{Target: l.Attrs().Index, Attach: at})
			if err != nil {
				return err
			}
			for _, p := range r.Programs {
				n++
				if err := f(l.Attrs().Index, at, p); err != nil {
					return err
				}
			}
		}
	}
	if n == 0 {
		return errors.New("no link has a program")
	}
	return nil
}

// detach takes the programs of a filter away.
func detach(int) (func() error, error) {
	return nil, hooks(func(_ int, _ ebpf.AttachType, p link.AttachedProgram) error {
		id, _ := p.LinkID()
		l, err := link.NewFromID(id)
		if err != nil {
			return err
		}
		if err := l.Detach(); err != nil {
			return err
		}
		return l.Close()
	})
}

// attach puts the program of a filter in a second place of the same link, and takes it away again.
func attach(int) (func() error, error) {
	return nil, hooks(func(index int, at ebpf.AttachType, p link.AttachedProgram) error {
		other, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.SchedCLS, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}, // TCX_NEXT
		})
		if err != nil {
			return err
		}
		defer other.Close()
		l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: other, Attach: at})
		if err != nil {
			return err
		}
		if err := l.Detach(); err != nil {
			return err
		}
		return l.Close()
	})
}

// enter enters a connection into the table of the namespace of the calling thread, so that a filter takes packets to a
// port that it refuses for those of a connection that was allowed once.
func enter(pid int) (func() error, error) {
	const from, to = 40000, 40001
	in := func(name string, f func() error) error {
		ns, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "root", "run/netns", name))
		if err != nil {
			return err
		}
		defer ns.Close()
		return netns.Do(int(ns.Fd()), f)
	}
	address := func() (net.IP, error) {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return nil, err
		}
		list, err := netlink.AddrList(l, netlink.FAMILY_V4)
		if err != nil || len(list) == 0 {
			return nil, fmt.Errorf("addresses of eth0: %v (%w)", list, err)
		}
		return list[0].IP, nil
	}
	var sink *net.UDPConn
	if err := in("snk0", func() error {
		own, err := address()
		if err != nil {
			return err
		}
		sink, err = net.ListenUDP("udp4", &net.UDPAddr{IP: own, Port: to})
		return err
	}); err != nil {
		return nil, err
	}
	defer sink.Close()
	there := sink.LocalAddr().(*net.UDPAddr)
	var own net.IP
	passes := func() (arrived bool, err error) {
		err = in("src0", func() error {
			if own, err = address(); err != nil {
				return err
			}
			c, err := net.DialUDP("udp4", &net.UDPAddr{IP: own, Port: from}, there)
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write([]byte("refused"))
			return err
		})
		if err == nil {
			err = sink.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		}
		if err != nil {
			return false, err
		}
		_, _, err = sink.ReadFromUDP(make([]byte, 16))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false, nil
		}
		return err == nil, err
	}
	if arrived, err := passes(); arrived || err != nil {
		return nil, fmt.Errorf("port %d is not refused (%w)", to, err)
	}
	if said, err := exec.Command("conntrack", "-I", "-p", "udp", "-s", own.String(), "-d", there.IP.String(), "--sport",
		strconv.Itoa(from), "--dport", strconv.Itoa(to), "-t", "600", "-u", "SEEN_REPLY,ASSURED").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("enter a connection: %w: %s", err, said)
	}
	if arrived, err := passes(); !arrived {
		return nil, fmt.Errorf("port %d is still refused (%w)", to, err)
	}
	return nil, nil
}

// A run in which a leak was planted, and that nobody interrupts, ends with exit status 4.
func TestWatchEnds(t *testing.T) {
	testnet.Root(t)
	testnet.Program(t, "nsenter", "util-linux")
	testnet.Program(t, "ip", "iproute2")
	t.Parallel()
	w := &watchRun{seen: map[int]int{}, began: time.Now()}
	w.list = slices.DeleteFunc(plantings(), func(p planting) bool { return p.name != "a second veth" })
	w.list[0].undo = ""
	w.session = start(t, "--time", "8s", "--baseline", "host", "--network", "bridge", "--filter", "none", "--workload",
		"udp-rr", "--placement", "same-host")
	w.measuring()
	for running := true; running; {
		select {
		case <-w.ended:
			running = false
		case <-time.After(50 * time.Millisecond):
		}
		if log := w.look(running); running {
			w.plantNext(log)
		}
	}
	if status := w.wait(patience); status != 4 || w.found != 1 {
		t.Errorf("exit status %d, and %d leaks were noticed, want 4 and 1\n%s", status, w.found, w.stderr.String())
	}
}

// In runs in which nobody plants anything nothing is found.
func TestWatchClean(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	for range *clean {
		s := start(t, "--time", "1s", "--baseline", "host", "--network", "bridge,nat", "--filter", "none,nftables", "--workload",
			"udp-rr", "--workload", "tcp-crr", "--placement", "cross-host", "--pairs", "2")
		status := s.wait(patience)
		log, _ := s.records()
		n := 0
		for _, p := range log.Proofs {
			if p.Name == proof.Watched || p.Name == proof.Sampled {
				n++
				if !p.OK {
					t.Errorf("nothing was planted, and a claim did not hold: %s: %s", p.Lab, p.Detail)
				}
			}
		}
		if status == 4 || n == 0 {
			t.Errorf("exit status %d, %d proofs during blocks\n%s", status, n, s.stderr.String())
		}
	}
}
