package watch

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// A bench is a namespace that is watched: a bridge with a port whose other end is in another namespace, an address, a
// neighbour, and a table of rules. Its links get no address by themselves, which would come one or two seconds after
// the other end is up.
type bench struct {
	*testing.T
	machine *testnet.Machine
	other   *os.File
	watched *Namespace
}

func newBench(t *testing.T) *bench {
	t.Helper()
	testnet.Program(t, "ip", "iproute2")
	testnet.Program(t, "nft", "nftables")
	testnet.Program(t, "iptables-legacy", "iptables")
	testnet.Program(t, "ipset", "ipset")
	b := &bench{T: t, machine: testnet.New(t)}
	var err error
	if b.other, err = netns.New(nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.other.Close() })
	b.do(`ip link set lo up
ip link add br0 address 02:00:00:00:00:01 type bridge
sysctl net/ipv6/conf/br0/addr_gen_mode 1
ip link set br0 up
ip link add vsrc0 type veth peer name far0
sysctl net/ipv6/conf/vsrc0/addr_gen_mode 1
ip link set far0 netns /proc/self/fd/3
ip link set vsrc0 master br0 up
ip addr add 10.1.0.1/16 dev br0 nodad
ip addr add fd00:10:1::1/64 dev br0 nodad
ip neigh replace 10.1.0.2 lladdr 02:00:00:00:00:02 dev br0 nud reachable
ip neigh replace 10.1.0.3 lladdr 02:00:00:00:00:03 dev br0 nud permanent
ip route add 10.2.0.0/16 via 10.1.0.2
nft add table inet filter
nft add chain inet filter forward { type filter hook forward priority 0 ; policy drop ; }
nft add rule inet filter forward udp dport 20000 accept`)
	w := &Watch{}
	if b.watched, err = w.Open(int(b.machine.NS.Fd()), true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.watched.Close)
	return b
}

// do runs commands in the namespace, a line each. What begins with "sysctl" is written, "far" runs in the other
// namespace.
func (b *bench) do(commands string) {
	b.Helper()
	for line := range strings.Lines(commands) {
		args := strings.Fields(line)
		if len(args) == 0 {
			continue
		}
		in := b.machine.Do
		if args[0] == "far" {
			in, args = func(f func() error) error { return netns.Do(int(b.other.Fd()), f) }, args[1:]
		}
		if err := in(func() error {
			if args[0] == "sysctl" {
				return os.WriteFile("/proc/sys/"+args[1], []byte(args[2]), 0)
			}
			cmd := exec.Command(args[0], args[1:]...)
			cmd.ExtraFiles = []*os.File{b.other}
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", line, err, out)
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// forwards waits until the port of the bridge forwards, which is when its other end is known to be up.
func (b *bench) forwards() {
	b.Helper()
	own := thing{"link vsrc0", "port setting state of vsrc0"}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		is, err := b.watched.list(&b.watched.links)
		if err != nil {
			b.Fatal(err)
		}
		if is[own] == "3" { // BR_STATE_FORWARDING (include/uapi/linux/if_bridge.h)
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("the port does not forward: %q", is[own])
		}
	}
}

// audit returns what an audit says.
func (b *bench) audit() []string {
	b.Helper()
	a, err := b.watched.Audit(Usual)
	if err != nil {
		b.Fatal(err)
	}
	if a.Lost {
		b.Error("the monitor has lost something")
	}
	var list []string
	for _, c := range a.Changes {
		list = append(list, c.String())
	}
	for _, s := range a.New {
		list = append(list, "socket "+s.Name)
	}
	return list
}

// Each change from outside is named by the next audit, whether it stands or has come and gone.
func TestEachChangeIsNamed(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name, plant, undo string
		stands            string // a part of what is said while it stands
		passed            string // and when it has come and gone; "" if that leaves no trace
	}{
		{
			name: "an accept rule", plant: "nft insert rule inet filter forward accept", undo: "nft flush chain inet filter forward",
			stands: "of chain forward of nftables table inet filter: added (accept everything)",
			passed: "added (accept everything) and removed again",
		},
		{
			name: "a flushed chain", plant: "nft flush chain inet filter forward",
			undo:   "nft add rule inet filter forward udp dport 20000 accept",
			passed: "of chain forward of nftables table inet filter: added (accept by ",
		},
		{
			name: "another table", plant: "nft add table ip nat", undo: "nft delete table ip nat",
			stands: "nftables table ip nat: added", passed: "nftables table ip nat: added (present) and removed again",
		},
		{
			name: "a second veth", plant: "ip link add veth9 type veth peer name veth8", undo: "ip link del veth9",
			stands: "link veth9: added (veth, number ", passed: "link veth9: added (veth, number",
		},
		{
			name: "a port of a bridge", plant: "ip link add veth7 type veth peer name veth6\nip link set veth7 master br0",
			undo: "ip link del veth7", stands: "link veth7: added (veth", passed: "link veth7: added (veth",
		},
		{
			name: "a port is another's", plant: "ip link set vsrc0 nomaster", undo: "ip link set vsrc0 master br0",
			stands: "master of vsrc0: removed (it was br0)", passed: "master of vsrc0: removed (it was br0) and added again",
		},
		{
			name: "a sysctl of all links", plant: "sysctl net/ipv4/conf/all/rp_filter 1", undo: "sysctl net/ipv4/conf/all/rp_filter 0",
			stands: "net.ipv4.conf.all.rp_filter: 0 → 1", passed: "net.ipv4.conf.all.rp_filter: 0 → 1 → 0",
		},
		{
			name: "a sysctl of a link", plant: "sysctl net/ipv4/conf/br0/proxy_arp 1", undo: "sysctl net/ipv4/conf/br0/proxy_arp 0",
			stands: "net.ipv4.conf.br0.proxy_arp: 0 → 1", passed: "net.ipv4.conf.br0.proxy_arp: 0 → 1 → 0",
		},
		{
			name: "forwarding", plant: "sysctl net/ipv4/conf/all/forwarding 1", undo: "sysctl net/ipv4/conf/all/forwarding 0",
			stands: "net.ipv4.conf.all.forwarding: 0 → 1", passed: "net.ipv4.conf.all.forwarding: 0 → 1 → 0",
		},
		{
			name: "a sysctl without a monitor", plant: "sysctl net/ipv4/conf/br0/accept_local 1",
			undo: "sysctl net/ipv4/conf/br0/accept_local 0", stands: "net.ipv4.conf.br0.accept_local: 0 → 1",
		},
		{
			name: "a route around", plant: "ip route replace 10.2.0.0/16 via 10.1.0.3", undo: "ip route replace 10.2.0.0/16 via 10.1.0.2",
			stands: "route to 10.2.0.0/16, table main: protocol 3, through br0, via 10.1.0.2 → protocol 3, through br0, via 10.1.0.3",
			passed: "via 10.1.0.2 → protocol 3, through br0, via 10.1.0.3 → protocol 3, through br0, via 10.1.0.2",
		},
		{
			name: "a rule for routes", plant: "ip rule add from 10.1.0.9 table 9 priority 9", undo: "ip rule del priority 9",
			stands: "rule for routes, ipv4, priority 9, from 10.1.0.9/32", passed: "and removed again",
		},
		{
			name: "a neighbour is rewritten", plant: "ip neigh replace 10.1.0.2 lladdr 02:00:00:00:00:66 dev br0 nud reachable",
			undo:   "ip neigh replace 10.1.0.2 lladdr 02:00:00:00:00:02 dev br0 nud reachable",
			stands: "neighbour 10.1.0.2 on br0: 02:00:00:00:00:02 → 02:00:00:00:00:66",
			passed: "neighbour 10.1.0.2 on br0: 02:00:00:00:00:02 → 02:00:00:00:00:66 → 02:00:00:00:00:02",
		},
		{
			name: "a permanent neighbour is removed", plant: "ip neigh del 10.1.0.3 dev br0",
			undo:   "ip neigh replace 10.1.0.3 lladdr 02:00:00:00:00:03 dev br0 nud permanent",
			stands: "neighbour 10.1.0.3 on br0: removed", passed: "neighbour 10.1.0.3 on br0: removed",
		},
		{
			name: "an entry of a bridge", plant: "bridge fdb add 02:00:00:00:00:77 dev vsrc0 master static",
			undo:   "bridge fdb del 02:00:00:00:00:77 dev vsrc0 master",
			stands: "forwarding of 02:00:00:00:00:77 by br0: added (by vsrc0, permanent)", passed: "and removed again",
		},
		{
			name: "a group of a bridge", plant: "bridge mdb add dev br0 port vsrc0 grp 239.1.1.1 permanent",
			undo:   "bridge mdb del dev br0 port vsrc0 grp 239.1.1.1 permanent",
			stands: "group 239.1.1.1 of br0 at vsrc0: added (present, permanent)", passed: "and removed again",
		},
		{
			name: "a policy of IPsec", plant: "ip xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir out action block",
			undo:   "ip xfrm policy delete src 10.1.0.0/16 dst 10.2.0.0/16 dir out",
			stands: "policy of IPsec, out, from 10.1.0.0/16 to 10.2.0.0/16: added (block)", passed: "and removed again",
		},
		{
			name: "a set", plant: "ipset create leak hash:ip\nipset add leak 10.1.1.1", undo: "ipset destroy leak",
			stands: "set leak: added (1 entries with the sum ",
		},
		{
			name: "an older table", plant: "iptables-legacy -I FORWARD -j ACCEPT", undo: "iptables-legacy -D FORWARD -j ACCEPT",
			stands: "table filter of iptables: added (5 entries",
		},
		{
			name: "a rule in an older table", plant: "iptables-legacy -I FORWARD -j DROP", undo: "iptables-legacy -D FORWARD -j DROP",
			stands: "table filter of iptables: 4 entries",
		},
		{
			name: "another address", plant: "ip addr add 10.1.0.9/16 dev br0", undo: "ip addr del 10.1.0.9/16 dev br0",
			stands: "address 10.1.0.9/16 of br0: added", passed: "address 10.1.0.9/16 of br0: added (scope 0) and removed again",
		},
		{
			name: "IPv6 is opened", plant: "ip -6 route add fd00:10:2::/64 via fd00:10:1::2", undo: "ip -6 route del fd00:10:2::/64",
			stands: "route to fd00:10:2::/64, metric 1024, table main: added", passed: "and removed again",
		},
		{
			name: "a queueing discipline", plant: "tc qdisc add dev br0 clsact", undo: "tc qdisc del dev br0 clsact",
			stands: "queueing discipline ffff:0 at ffff:fff1 of br0: added (clsact", passed: "and removed again",
		},
		{
			name: "the MTU", plant: "ip link set br0 mtu 1400", undo: "ip link set br0 mtu 1500", stands: "MTU of br0: 1500 → 1400",
			passed: "MTU of br0: 1500 → 1400 → 1500",
		},
		{
			name: "listening to all", plant: "ip link set br0 promisc on", undo: "ip link set br0 promisc off",
			stands: "state of br0: up → up, promiscuous", passed: "state of br0: up → up, promiscuous → up",
		},
		{
			name: "down", plant: "ip link set vsrc0 down", undo: "ip link set vsrc0 up", stands: "state of vsrc0: up → down",
			passed: "state of vsrc0: up → down → up",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.T = t
			if got := b.audit(); got != nil {
				t.Fatalf("before anything was changed: %q", got)
			}
			b.do(c.plant)
			says(t, "that stands", b.audit(), c.stands)
			b.do(c.undo)
			if got := b.audit(); c.stands != "" && got == nil {
				t.Error("that it was undone is not noticed")
			}
			b.do(c.plant + "\n" + c.undo)
			got := b.audit()
			if c.passed != "" {
				says(t, "that came and went", got, c.passed)
			}
			if got := b.audit(); got != nil {
				t.Errorf("after all is known: %q", got)
			}
		})
	}
}

// Sockets that hear what is for others are named once each, also if one that hears the same was there before.
func TestNewEarsAreNamed(t *testing.T) {
	b := newBench(t)
	open := func(domain, kind, protocol int) (fd int) {
		if err := b.machine.Do(func() (err error) {
			fd, err = unix.Socket(domain, kind|unix.SOCK_CLOEXEC, protocol)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	all := int(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})) // in the order of the network
	bound := func(kind int, name string) int {
		fd := open(unix.AF_UNIX, kind, 0)
		err := unix.Bind(fd, &unix.SockaddrUnix{Name: name})
		if err == nil && kind != unix.SOCK_DGRAM {
			err = unix.Listen(fd, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	open(unix.AF_PACKET, unix.SOCK_RAW, all)
	known := bound(unix.SOCK_STREAM, "@known")
	if err := b.watched.Listen(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "unix.sock")
	// what only hears its peer: a client, and what a server has accepted
	client := open(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err := unix.Connect(client, &unix.SockaddrUnix{Name: "@known"}); err != nil {
		t.Fatal(err)
	}
	accepted, _, err := unix.Accept(known)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(accepted) })
	want := map[uint32]string{}
	for _, c := range []struct {
		what string
		fd   int
	}{
		{"packet, protocol 0x0003", open(unix.AF_PACKET, unix.SOCK_RAW, all)},
		{"raw ipv4, protocol 0x0011", open(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_UDP)},
		{"raw ipv6, protocol 0x003a", open(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)},
		{"unix, @a name", bound(unix.SOCK_STREAM, "@a name")},
		{"unix, @b", bound(unix.SOCK_SEQPACKET, "@b")},
		{"unix, @c", bound(unix.SOCK_DGRAM, "@c")},
		{"unix, " + path, bound(unix.SOCK_STREAM, path)},
	} {
		var stat unix.Stat_t
		if err := unix.Fstat(c.fd, &stat); err != nil {
			t.Fatal(err)
		}
		want[uint32(stat.Ino)] = fmt.Sprintf("%s, number %d", c.what, stat.Ino)
	}
	a, err := b.watched.Audit(All)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint32]string{}
	for _, s := range a.New {
		got[s.Inode] = s.Name
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("new sockets (-want +got):\n%s", d)
	}
	if a, err := b.watched.Audit(All); len(a.New) > 0 || err != nil {
		t.Errorf("after all is known: %v, %v", a.New, err)
	}
}

// A socket that an audit found is open until it is closed, also if another one hears the same then.
func TestAnEarIsOpenUntilItIsClosed(t *testing.T) {
	b := newBench(t)
	listen := map[string]func() (io.Closer, error){
		"packet": func() (io.Closer, error) {
			fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			return os.NewFile(uintptr(fd), "packet"), err
		},
	}
	for _, network := range []string{"tcp4", "tcp6"} {
		listen[network] = func() (io.Closer, error) { return net.Listen(network, ":7000") }
	}
	for _, network := range []string{"udp4", "udp6"} {
		listen[network] = func() (io.Closer, error) { return net.ListenPacket(network, ":7000") }
	}
	for name, open := range listen {
		t.Run(name, func(t *testing.T) {
			b.T = t
			opened := func() (c io.Closer) {
				if err := b.machine.Do(func() (err error) {
					c, err = open()
					return err
				}); err != nil {
					t.Fatal(err)
				}
				return c
			}
			c := opened()
			a, err := b.watched.Audit(All)
			if len(a.New) != 1 || err != nil {
				t.Fatalf("new sockets: %v, %v, want one", a.New, err)
			}
			for _, want := range []bool{true, false} {
				if got, err := b.watched.IsOpen(a.New[0]); got != want || err != nil {
					t.Errorf("%s is open: %v, %v, want %v", a.New[0].Name, got, err, want)
				}
				if want {
					if err := c.Close(); err != nil {
						t.Fatal(err)
					}
					c = opened()
				}
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := b.watched.Audit(All); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// An XDP program is named, whether it stands or has come and gone.
func TestXDPIsNamed(t *testing.T) {
	b := newBench(t)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	attach := func() (l link.Link) {
		if err := b.machine.Do(func() error {
			device, err := net.InterfaceByName("vsrc0")
			if err == nil {
				l, err = link.AttachXDP(link.XDPOptions{Program: p, Interface: device.Index, Flags: link.XDPGenericMode})
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if got := b.audit(); got != nil {
		t.Fatalf("before anything was changed: %q", got)
	}
	l := attach()
	says(t, "that stands", b.audit(), "XDP program of vsrc0: added (number ")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	says(t, "that was undone", b.audit(), "XDP program of vsrc0: removed (it was number ")
	if err := b.machine.Do(func() error { // by netlink; nothing tells of one by a file that comes and goes
		device, err := netlink.LinkByName("vsrc0")
		if err != nil {
			return err
		}
		for _, fd := range []int{p.FD(), -1} {
			if err := netlink.LinkSetXdpFdWithFlags(device, fd, int(link.XDPGenericMode)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	says(t, "that came and went", b.audit(), "XDP program of vsrc0: added (number ")
	if got := b.audit(); got != nil {
		t.Errorf("after all is known: %q", got)
	}
}

func says(t *testing.T, what string, got []string, want string) {
	t.Helper()
	if !strings.Contains(strings.Join(got, "\n"), want) {
		t.Errorf("of a change %s it is said %q, want %q", what, got, want)
	}
}

// What a kernel does by itself, and what runs in a namespace, is no change: neighbours are learned, go stale and are
// forgotten, bridges learn addresses, connections come and go.
func TestNothingIsNoChange(t *testing.T) {
	b := newBench(t)
	b.do(`far ip link set far0 up
far ip addr add 10.1.0.7/16 dev far0
far ip neigh replace 10.1.0.1 lladdr 02:00:00:00:00:01 dev far0 nud stale`)
	b.forwards()
	b.audit() // the other end is up
	for _, c := range []struct{ name, do string }{
		{"a neighbour is learned", "ip neigh add 10.1.0.8 lladdr 02:00:00:00:00:08 dev br0 nud stale"},
		{"it is used", "ip neigh replace 10.1.0.8 lladdr 02:00:00:00:00:08 dev br0 nud delay"},
		{"it is confirmed", "ip neigh replace 10.1.0.8 lladdr 02:00:00:00:00:08 dev br0 nud reachable"},
		{"it is forgotten", "ip neigh del 10.1.0.8 dev br0"},
		{"it is learned again", "ip neigh add 10.1.0.8 lladdr 02:00:00:00:00:08 dev br0 nud stale"},
		{"a bridge learns", "bridge fdb add 02:00:00:00:00:78 dev vsrc0 master dynamic"},
		{"a bridge forgets", "bridge fdb del 02:00:00:00:00:78 dev vsrc0 master"},
	} {
		b.do(c.do)
		if got := b.audit(); got != nil {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	b.do("ip neigh del 10.1.0.8 dev br0")
	if got := b.audit(); got != nil {
		t.Errorf("forgotten again: %q", got)
	}
	b.do("ip neigh add 10.1.0.8 lladdr 02:00:00:00:00:99 dev br0 nud stale")
	says(t, "in which a neighbour that was forgotten is another", b.audit(),
		"neighbour 10.1.0.8 on br0: 02:00:00:00:00:08 → 02:00:00:00:00:99")
}

// Bridges learn groups from whoever listens, also those of neighbour discovery, and forget them.
func TestLearnedGroupsAreNoChange(t *testing.T) {
	b := newBench(t)
	b.do("far ip link set far0 up")
	b.forwards()
	b.audit()                   // the other end is up
	groups := func() []string { // addresses of IPv6 may come late
		return slices.DeleteFunc(b.audit(), func(said string) bool { return !strings.HasPrefix(said, "group ") })
	}
	knows := func(group string) bool {
		known := false
		s := &b.watched.multicast
		err := b.watched.route.dump(s.kinds[0], s.body[0], func() { known = false }, func(m message) {
			s.read(b.watched.names, m.data, func(t thing, value string) {
				known = known || strings.HasPrefix(t.what, "group "+group+" of br0 at vsrc0")
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		return known
	}
	for _, c := range []struct{ group, join, forget string }{
		{"239.5.5.5", "far ip addr add 239.5.5.5/32 dev far0 autojoin", "bridge mdb del dev br0 port vsrc0 grp 239.5.5.5"},
		{
			"ff02::1:ff00:77", "far ip addr add fd00:10:1::77/64 dev far0",
			"bridge mdb del dev br0 port vsrc0 grp ff02::1:ff00:77",
		},
	} {
		b.do(c.join)
		for deadline := time.Now().Add(10 * time.Second); !knows(c.group); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the bridge does not learn group %s", c.group)
			}
		}
		if got := groups(); len(got) > 0 {
			t.Errorf("the bridge has learned group %s: %q", c.group, got)
		}
		b.watched.multicast.dirty = true // as if an event had been lost
		if got := groups(); len(got) > 0 {
			t.Errorf("group %s is listed: %q", c.group, got)
		}
		b.do(c.forget)
		if got := groups(); len(got) > 0 {
			t.Errorf("the bridge has forgotten group %s: %q", c.group, got)
		}
	}
	b.do("bridge mdb add dev br0 port vsrc0 grp 239.1.1.2") // it expires, but nobody listens
	says(t, "that was not learned", b.audit(), "group 239.1.1.2 of br0 at vsrc0: added (present)")
}

// Each VLAN of a port that comes or goes is named.
func TestVLANsAreNamed(t *testing.T) {
	b := newBench(t)
	if err := b.machine.Do(func() error {
		return exec.Command("ip", "link", "set", "br0", "type", "bridge", "vlan_filtering", "1").Run()
	}); err != nil {
		testnet.Lacks(t, "VLANs of bridges")
	}
	b.audit()
	for _, c := range []struct{ do, want string }{
		{"bridge vlan add dev vsrc0 vid 7", "VLAN 7 of vsrc0: added (tagged)"},
		{"bridge vlan add dev vsrc0 vid 7 untagged", "VLAN 7 of vsrc0: tagged → untagged"},
		{"bridge vlan add dev vsrc0 vid 9 pvid", "VLAN 9 of vsrc0: added (tagged, of untagged packets)"},
		{
			"bridge vlan del dev vsrc0 vid 7\nbridge vlan add dev vsrc0 vid 7 untagged",
			"VLAN 7 of vsrc0: removed (it was untagged) and added again",
		},
		{
			"bridge vlan add dev vsrc0 vid 20-22\nbridge vlan del dev vsrc0 vid 20-22",
			"VLAN 21 of vsrc0: added (tagged) and removed again",
		},
		{"bridge vlan add dev vsrc0 vid 30-32", "VLAN 31 of vsrc0: added (tagged)"},
		{"bridge vlan add dev br0 vid 30 self", "VLAN 30 of br0: added (tagged)"},
		{"ip link set vsrc0 nomaster", "VLAN 32 of vsrc0: removed (it was tagged)"},
	} {
		b.do(c.do)
		says(t, "by "+c.do, b.audit(), c.want)
		if got := b.audit(); got != nil {
			t.Errorf("after %s is known: %q", c.do, got)
		}
	}
}

// What tc, IPsec and next hops were like before the watch is known: a change is named with it, also if no event has told
// of it, and what packets change is none.
func TestListedIsCompared(t *testing.T) {
	b := newBench(t)
	b.do("far ip link set far0 up\nfar ip addr add 10.1.0.7/16 dev far0")
	b.forwards()
	b.do(`tc qdisc add dev vsrc0 root handle 1: htb
tc class add dev vsrc0 parent 1: classid 1:1 htb rate 1gbit
tc qdisc add dev vsrc0 parent 1:1 handle 11: pfifo limit 10
tc filter add dev vsrc0 parent 1: prio 5 u32 match ip dst 10.9.0.0/16 flowid 1:1
tc qdisc add dev vsrc0 clsact
tc filter add dev vsrc0 egress prio 7 u32 match ip dst 10.9.0.0/16 action mirred egress redirect dev lo
tc filter add dev vsrc0 ingress prio 7 u32 match u32 0 0 action mirred egress mirror dev lo
ip nexthop add id 5 via 10.1.0.2 dev br0
ip xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir out action block`)
	var err error
	if b.watched, err = (&Watch{}).Open(int(b.machine.NS.Fd()), true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.watched.Close)
	audit := func() (list []string) {
		t.Helper()
		a, err := b.watched.Audit(All)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range a.Changes {
			if c.Back < 1 {
				t.Errorf("%v: found since %d audits ago", c, c.Back)
			}
			list = append(list, c.String())
		}
		return list
	}
	b.do("far ping -c 2 -i 0.2 -W 1 -q 10.1.0.1")
	if got := audit(); got != nil {
		t.Fatalf("after packets: %q", got)
	}
	deaf := func() { // as if the monitors had lost all
		for _, c := range []*conn{b.watched.monitor, b.watched.security} {
			if err := c.pending(func(message) {}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct{ do, want string }{
		{
			"tc qdisc change dev vsrc0 parent 1:1 handle 11: pfifo limit 20",
			"queueing discipline 11:0 at 1:1 of vsrc0: pfifo, options 0a000000 → pfifo, options 14000000",
		},
		{"tc class change dev vsrc0 parent 1: classid 1:1 htb rate 2gbit", "traffic class 1:1 at ffff:ffff of vsrc0: htb, options "},
		{
			"tc filter replace dev vsrc0 ingress prio 7 handle 800::800 u32 match u32 0 0 action mirred egress mirror dev vsrc0",
			" of vsrc0, priority 7: u32, options ",
		},
		{"tc filter del dev vsrc0 parent 1: prio 5", "filter of tc 8000:800 at 1:0 of vsrc0, priority 5: removed (it was u32"},
		{"ip nexthop replace id 5 via 10.1.0.3 dev br0", "next hop number 5: protocol 0, through br0, via 10.1.0.2 → protocol 0, "},
		{
			"ip xfrm policy update src 10.1.0.0/16 dst 10.2.0.0/16 dir out action allow",
			"policy of IPsec, out, from 10.1.0.0/16 to 10.2.0.0/16: block → allow",
		},
		{"ip xfrm policy setdefault out block", "default of IPsec: in accept, forward accept, out accept → in accept, forward accept, out block"},
		{"tc qdisc del dev vsrc0 clsact", " of vsrc0, priority 7: removed (it was u32, options "},
		{"ip link del vsrc0", "queueing discipline 1:0 at ffff:ffff of vsrc0: removed (it was htb"},
	} {
		b.do(c.do)
		deaf()
		says(t, "by "+c.do, audit(), c.want)
		if got := audit(); got != nil {
			t.Errorf("after %s is known: %q", c.do, got)
		}
	}
}

// An association that was there before the watch is known with its key, which is not told. Packets do not change it.
func TestAssociationsAreCompared(t *testing.T) {
	b := newBench(t)
	add := func(key string) string {
		return "ip xfrm state add src 10.1.0.1 dst 10.1.0.2 proto esp spi 7 mode tunnel enc cbc(aes) 0x" +
			strings.Repeat(key, 16)
	}
	if err := b.machine.Do(func() error {
		args := strings.Fields(add("ab"))
		return exec.Command(args[0], args[1:]...).Run()
	}); err != nil {
		testnet.Lacks(t, "ESP in the kernel")
	}
	b.do("ip xfrm policy add src 10.1.0.1 dst 10.1.0.2 dir out tmpl src 10.1.0.1 dst 10.1.0.2 proto esp mode tunnel")
	var err error
	if b.watched, err = (&Watch{}).Open(int(b.machine.NS.Fd()), true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.watched.Close)
	if err := b.machine.Do(func() error {
		c, err := net.Dial("udp4", "10.1.0.2:9")
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("a datagram"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	audit := func() []string {
		t.Helper()
		if err := b.watched.security.pending(func(message) {}); err != nil { // as if the monitor had lost all
			t.Fatal(err)
		}
		b.watched.secured.dirty = true
		return b.audit()
	}
	if got := audit(); got != nil {
		t.Errorf("after a packet: %q", got)
	}
	what := "security association from 10.1.0.1 to 10.1.0.2, SPI 00000007: cipher cbc(aes), settings with the sum "
	b.do("ip xfrm state delete src 10.1.0.1 dst 10.1.0.2 proto esp spi 7\n" + add("cd"))
	got := audit()
	says(t, "of a key", got, what)
	says(t, "of a key", got, " → cipher cbc(aes), settings with the sum ")
	b.do("ip xfrm policy update src 10.1.0.1 dst 10.1.0.2 dir out tmpl src 10.1.0.1 dst 10.1.0.2 proto esp mode transport level use")
	says(t, "that allows packets without a cipher", audit(),
		"policy of IPsec, out, from 10.1.0.1/32 to 10.1.0.2/32: allow, templates with the sum ")
}

// The files that list older tables may come later than the watch, with a module.
func TestOlderTablesComeLater(t *testing.T) {
	b := newBench(t)
	for i, f := range b.watched.legacy {
		if f != nil {
			_ = f.Close()
			b.watched.legacy[i] = nil
		}
	}
	b.do("iptables-legacy -I FORWARD -j ACCEPT")
	says(t, "after the module came", b.audit(), "table filter of iptables: added (5 entries")
}

// The tables of arptables are older tables, too.
func TestTablesOfARP(t *testing.T) {
	b := newBench(t)
	arp := legacy()[2]
	if b.watched.legacy[2] == nil {
		testnet.Lacks(t, "arptables in the kernel")
	}
	do := func(f func(fd int) error) {
		t.Helper()
		if err := b.machine.Do(func() error {
			fd, err := unix.Socket(arp.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()
			return f(fd)
		}); err != nil {
			t.Fatal(err)
		}
	}
	info := make([]byte, arp.info)
	copy(info, "filter")
	var entries []byte
	do(func(fd int) error { // whoever asks for the table makes it
		err := getsockopt(fd, arp.level, arp.base, info)
		if err != nil {
			return err
		}
		size := info[arp.info-4:]
		entries = make([]byte, entriesHead+u32(size))
		copy(entries, "filter")
		copy(entries[32:], size)
		return getsockopt(fd, arp.level, arp.base+1, entries)
	})
	entries = entries[entriesHead:]
	says(t, "that makes a table", b.audit(), "table filter of arptables: added (")
	// a struct arpt_replace, in which the first policy drops
	binary.NativeEndian.PutUint32(entries[192+32:], ^uint32(0))
	counters := make([]byte, 16*u32(info[arp.info-8:]))
	order := binary.NativeEndian
	replace := append(slices.Clone(info[:36]), info[arp.info-8:]...) // name, hooks, number and size of the entries
	replace = append(replace, info[36:60]...)                        // where the hooks begin
	replace = order.AppendUint32(replace, u32(info[arp.info-8:]))
	replace = order.AppendUint64(replace, uint64(uintptr(unsafe.Pointer(&counters[0]))))
	do(func(fd int) error {
		return unix.SetsockoptString(fd, arp.level, arp.base, string(append(replace, entries...)))
	})
	runtime.KeepAlive(counters)
	says(t, "of a policy", b.audit(), "table filter of arptables: 4 entries with the sum ")
	if got := b.audit(); got != nil {
		t.Errorf("after all is known: %q", got)
	}
}

// An audit that finds nothing takes much less than a millisecond.
func BenchmarkAudit(b *testing.B) {
	m := testnet.New(b)
	w := &Watch{}
	n, err := w.Open(int(m.NS.Fd()), true)
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	for b.Loop() {
		if _, err := n.Audit(Usual); err != nil {
			b.Fatal(err)
		}
	}
}

// Connections that somebody enters into the table are named, and those of packets are not.
func TestConnectionsEntered(t *testing.T) {
	b := newBench(t)
	b.do("nft add rule inet filter forward ct state established accept")
	b.audit()
	if err := b.machine.Do(func() error {
		c, err := net.Dial("udp4", "10.1.0.1:9")
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write([]byte("a datagram")); err != nil {
			return err
		}
		if n, err := conntrack.Count(0); n == 0 || err != nil {
			return fmt.Errorf("%d connections are tracked (%w)", n, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := b.audit(); got != nil {
		t.Errorf("after a packet: %q", got)
	}
	if err := b.machine.Do(func() error {
		return conntrack.Fill(conntrack.Filling{
			Source: netip.MustParseAddr("10.1.254.1"), Destination: netip.MustParseAddr("192.0.2.1"),
			Public: netip.MustParseAddr("198.18.0.1"), Count: 3, Timeout: time.Hour, Mark: 1,
		})
	}); err != nil {
		t.Fatal(err)
	}
	says(t, "that three were entered", b.audit(), "connections entered by programs: 0 → 3")
}
