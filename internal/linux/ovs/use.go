package ovs

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux/conntrack"
)

// CPUTime returns how long the threads of a process have run, to the nanosecond (/proc/PID/task/TID/schedstat;
// sched-stats.rst).
func CPUTime(pid int) (time.Duration, error) {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(paths) == 0 {
		return 0, fmt.Errorf("read the CPU time of process %d: no such process", pid)
	}
	var sum time.Duration
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// Passed returns the number of packets that the links of the calling thread's namespace have received and sent
// (/proc/net/dev; proc(5)).
func Passed() (sum uint64, err error) {
	const received, sent = 1, 9 // fields after a link's name, from 0
	text, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		return 0, fmt.Errorf("count the packets of links: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		_, figures, _ := strings.Cut(line, ":")
		fields := strings.Fields(figures)
		if len(fields) <= sent {
			continue // the heading
		}
		for _, i := range []int{received, sent} {
			n, err := strconv.ParseUint(fields[i], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("count the packets of links: %w", err)
			}
			sum += n
		}
	}
	return sum, nil
}

// Memory returns the resident memory of a process, in bytes (/proc/PID/status).
func Memory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
			}
			return kb << 10, nil
		}
	}
	return 0, fmt.Errorf("read the memory of process %d: /proc does not tell", pid)
}

// ForgetDecisions makes the datapath forget its decisions about packets, so that the current flows decide from then on.
// By itself, the daemon checks decisions when flows change, but not at once, and at most every 5 ms (udpif_revalidator
// in ofproto-dpif-upcall.c). Until then, deleted flows still decide. In userspace, the thread that forwards also
// forgets the decisions. In the kernel's datapath, flows that were just deleted may still decide a packet that is with
// the daemon. Afterwards, the counters of flows include all packets.
func (i Instance) ForgetDecisions() error {
	if _, err := Control(i.DaemonControl(), "revalidator/purge"); err != nil {
		return fmt.Errorf("forget the decisions of flows: %w", err)
	}
	return nil
}

// Forget makes the datapath forget the connections between two addresses over a protocol to a port.
func (i Instance) Forget(from, to netip.Addr, protocol uint8, port uint16) error {
	name := "nw"
	if to.Is6() {
		name = "ipv6"
	}
	tuple := fmt.Sprintf("ct_%s_src=%s,ct_%s_dst=%s,ct_nw_proto=%d,ct_tp_dst=%d", name, from, name, to, protocol, port)
	if _, err := Control(i.DaemonControl(), "dpctl/flush-conntrack", tuple); err != nil {
		return fmt.Errorf("forget connections: %w", err)
	}
	return nil
}

// ForgetAll makes the datapath forget all connections.
func (i Instance) ForgetAll() error {
	if _, err := Control(i.DaemonControl(), "dpctl/flush-conntrack"); err != nil {
		return fmt.Errorf("forget connections: %w", err)
	}
	return nil
}

// Tracked returns the number of connections that the datapath tracks.
func (i Instance) Tracked() (int, error) {
	text, err := Control(i.DaemonControl(), "dpctl/ct-get-nconns")
	if err != nil {
		return 0, fmt.Errorf("count connections: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("count connections: %w", err)
	}
	return n, nil
}

// Connections returns the connections that the datapath tracks.
func (i Instance) Connections() ([]conntrack.Flow, error) {
	text, err := Control(i.DaemonControl(), "dpctl/dump-conntrack")
	if err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	var list []conntrack.Flow
	for line := range strings.Lines(text) {
		f, err := connection(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("list connections: %w", err)
		}
		list = append(list, f)
	}
	return list, nil
}

// connection reads a line of dpctl/dump-conntrack (ct_dpif_format_entry of lib/ct-dpif.c):
//
//	udp,orig=(src=10.1.0.2,dst=10.1.0.3,sport=1,dport=2),reply=(src=10.1.0.3,dst=10.1.0.2,sport=2,dport=1),zone=1
func connection(line string) (f conntrack.Flow, err error) {
	name, _, _ := strings.Cut(line, ",")
	number, known := map[string]uint8{"icmp": 1, "tcp": TCP, "udp": UDP, "icmpv6": 58, "sctp": 132}[name]
	if !known {
		n, err := strconv.ParseUint(name, 10, 8)
		if err != nil {
			return f, fmt.Errorf("unknown protocol in %q", line)
		}
		number = uint8(n)
	}
	f.Protocol, f.Answered = number, true // which is not said
	for begin, into := range map[string]*conntrack.Way{"orig=(": &f.Original, "reply=(": &f.Reply} {
		_, rest, _ := strings.Cut(line, begin)
		inside, _, _ := strings.Cut(rest, ")")
		values := map[string]string{"sport": "0", "dport": "0"} // others have none
		for field := range strings.SplitSeq(inside, ",") {
			key, value, _ := strings.Cut(field, "=")
			values[key] = value
		}
		end := func(address, port string) netip.AddrPort {
			a, aerr := netip.ParseAddr(values[address])
			p, perr := strconv.ParseUint(values[port], 10, 16)
			err = errors.Join(err, aerr, perr)
			return netip.AddrPortFrom(a, uint16(p))
		}
		*into = conntrack.Way{Source: end("src", "sport"), Destination: end("dst", "dport")}
	}
	if err != nil {
		return f, fmt.Errorf("read %q: %w", line, err)
	}
	return f, nil
}

// Reassemble sets whether the connection tracking of the userspace datapath reassembles packets before it decides. In
// 3.1, it passes on 32 fragments of a packet, and keeps the others until another packet is tracked (tried;
// NETDEV_MAX_BURST of lib/dp-packet.h).
func (i Instance) Reassemble(on bool) error {
	command := "dpctl/ipf-set-disabled"
	if on {
		command = "dpctl/ipf-set-enabled"
	}
	for _, family := range []string{"v4", "v6"} {
		if _, err := Control(i.DaemonControl(), command, family); err != nil {
			return fmt.Errorf("switch reassembly of %s: %w", family, err)
		}
	}
	return nil
}

// Passages returns how many packets the datapath has looked up so far, from its own ports and from tunnels, with or
// without a previous decision ("lookups" of dpctl/show, ovs-dpctl(8)). A packet that is looked up several times, for
// example after connection tracking, counts each time.
func (i Instance) Passages() (uint64, error) {
	text, err := Control(i.DaemonControl(), "dpctl/show")
	if err != nil {
		return 0, fmt.Errorf("count the packets of the switch: %w", err)
	}
	n, err := lookups(text)
	if err != nil {
		return 0, fmt.Errorf("count the packets of the switch: %w", err)
	}
	return n, nil
}

// lookups adds hits and misses: " lookups: hit:11 missed:5 lost:0". Lost packets are included in the misses.
func lookups(text string) (uint64, error) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "lookups:")
		if !ok {
			continue
		}
		var sum uint64
		for field := range strings.FieldsSeq(rest) {
			name, value, _ := strings.Cut(field, ":")
			if name != "hit" && name != "missed" {
				continue
			}
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read %q: %w", strings.TrimSpace(line), err)
			}
			sum += n
		}
		return sum, nil
	}
	return 0, fmt.Errorf("dpctl/show has no line \"lookups\": %.80q", text)
}
