package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
)

// sysctls are the variables of a namespace that decide what passes: of one that forwards for others, or of one that
// sends and receives only. Those of single links come with the links.
func sysctls(forwards bool) []string {
	list := []string{
		"net.ipv4.conf.all.forwarding", "net.ipv6.conf.all.forwarding", "net.ipv6.conf.all.disable_ipv6",
		"net.ipv4.conf.all.rp_filter", "net.ipv4.conf.all.accept_local", "net.ipv4.conf.all.route_localnet",
		"net.ipv4.conf.all.disable_policy", "net.ipv4.conf.all.disable_xfrm", "net.ipv4.conf.all.proxy_arp",
		"net.ipv4.ip_nonlocal_bind", "net.ipv6.ip_nonlocal_bind",
	}
	if !forwards {
		return list
	}
	for _, name := range []string{"forwarding", "rp_filter", "proxy_arp", "accept_local", "route_localnet"} {
		list = append(list, "net.ipv4.conf.default."+name)
	}
	for _, name := range []string{"forwarding", "disable_ipv6", "accept_ra", "proxy_ndp"} {
		list = append(list, "net.ipv6.conf.default."+name)
	}
	for _, name := range []string{
		"accept_redirects", "send_redirects", "accept_source_route", "arp_ignore", "arp_announce", "arp_filter",
		"bc_forwarding",
	} {
		list = append(list, "net.ipv4.conf.all."+name)
	}
	return append(list, "net.ipv6.conf.all.accept_ra", "net.ipv6.conf.all.proxy_ndp",
		"net.ipv6.conf.all.accept_redirects", "net.ipv6.conf.all.accept_source_route",
		"net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables", "net.bridge.bridge-nf-call-arptables",
		"net.ipv4.fib_multipath_hash_policy", "net.ipv6.fib_multipath_hash_policy", "net.ipv4.ip_unprivileged_port_start",
		"net.netfilter.nf_conntrack_tcp_loose", "net.netfilter.nf_conntrack_tcp_be_liberal")
}

// A variable is a sysctl, with its file if that is kept open.
type variable struct {
	key  string
	file *os.File
	was  [32]byte // the bytes of its file
	n    int
}

// openVariables opens those that the namespace of the calling thread has. It keeps as many files open as keep allows.
func openVariables(forwards bool, keep func() bool) ([]variable, error) {
	var list []variable
	for _, key := range sysctls(forwards) {
		path, err := sysctl.Path(key)
		if err != nil {
			return list, err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // this kernel does not have it
		}
		if err != nil {
			return list, fmt.Errorf("watch sysctl %q: %w", key, err)
		}
		v := variable{key: key, file: f}
		v.n, err = unix.Pread(int(f.Fd()), v.was[:], 0)
		if err == nil && !keep() {
			v.file, err = nil, f.Close()
		}
		if err != nil {
			return list, fmt.Errorf("watch sysctl %q: %w", key, err)
		}
		list = append(list, v)
	}
	return list, nil
}

// thing is the variable, and value what it was.
func (v *variable) thing() thing  { return thing{"", v.key} }
func (v *variable) value() string { return strings.Join(strings.Fields(string(v.was[:v.n])), " ") }

// read says whether it has another value, and keeps that. The calling thread is in the namespace.
func (v *variable) read() (changed bool, err error) {
	f := v.file
	if f == nil {
		path, err := sysctl.Path(v.key)
		if err != nil {
			return false, err
		}
		if f, err = os.Open(path); err != nil {
			return false, fmt.Errorf("read sysctl %q: %w", v.key, err)
		}
		defer f.Close()
	}
	var is [32]byte
	n, err := unix.Pread(int(f.Fd()), is[:], 0)
	if err != nil {
		return false, fmt.Errorf("read sysctl %q: %w", v.key, err)
	}
	changed = n != v.n || is != v.was
	v.was, v.n = is, n
	return changed, nil
}

// programsAtOnce is of how many links without programs an audit looks at the hooks.
const programsAtOnce = 32

// count reads what has no monitor.
func (n *Namespace) count() (state, error) {
	is := state{}
	err := netns.Do(n.fd, func() error {
		if err := n.programs(is); err != nil {
			return err
		}
		if err := openLegacy(n.legacy); err != nil {
			return err
		}
		return errors.Join(old(is, n.legacy, n.watch.seed), entered(is, n.entries))
	})
	if err != nil {
		return nil, err
	}
	if n.filter != nil && !n.noSets {
		if err := n.filter.sets(is, n.watch.seed); absent(err) {
			n.noSets = true
		} else if err != nil {
			return nil, err
		}
	}
	return is, nil
}

// programs reads which programs of BPF the namespace has, and which are hooked to its links.
func (n *Namespace) programs(is state) error {
	for _, one := range []struct {
		what string
		read func(state) error
	}{{"programs at sk_lookup", n.own}, {"programs at tcx", n.hooked}} {
		if slices.Contains(n.missing, one.what) {
			continue
		}
		err := one.read(is)
		if err != nil && absent(err) {
			n.missing = append(n.missing, one.what)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// own reads which programs belong to no link.
func (n *Namespace) own(is state) error {
	list, err := bpf.OfNamespace(n.fd)
	for hook, programs := range list {
		is[thing{"", "programs at " + hook}] = programs
	}
	return err
}

// hooked reads which programs are hooked to links: of those that have some, and of some others in turn.
func (n *Namespace) hooked(is state) error {
	with := map[string]bool{}
	for t := range n.numbers {
		with[t.of] = true
	}
	all := slices.Sorted(maps.Keys(n.names))
	for i, index := range all {
		link := n.names[index]
		turn := n.numbers == nil || (i-n.next+len(all))%len(all) < programsAtOnce
		if !turn && !with["link "+link.name] {
			continue
		}
		if err := programs(is, index, link); err != nil && !errors.Is(err, unix.ENODEV) { // it is gone, which others say
			return err
		}
	}
	if len(all) > 0 {
		n.next = (n.next + programsAtOnce) % len(all)
	}
	return nil
}

// programs puts the programs of a link at hooks that have no monitor into words. The calling thread is in the
// namespace.
func programs(into state, index int, link linkName) error {
	hooks := []bpf.Hook{bpf.TCXIngress, bpf.TCXEgress}
	if link.kind == "netkit" {
		hooks = append(hooks, bpf.NetkitPeer)
	}
	for _, h := range hooks {
		s, err := bpf.Standing(h, index)
		if err != nil {
			return err
		}
		if s != "" {
			into[thing{"link " + link.name, fmt.Sprintf("programs at %s of %s", h, link.name)}] = s
		}
	}
	return nil
}

// A family of the older tables of rules (include/uapi/linux/netfilter_ipv4/ip_tables.h, netfilter_ipv6/ip6_tables.h,
// netfilter_arp/arp_tables.h).
type tables struct {
	program string
	file    string // that lists the tables which there are
	domain  int
	level   int
	next    int // where in an entry the length of it is
	counted int // where its two counters are
	base    int // the option that gets what a table is like (IPT_SO_GET_INFO, …); the next one gets its entries
	info    int // the size of that (struct ipt_getinfo), which ends with the number of entries and their size
}

func legacy() []tables {
	return []tables{
		{"iptables", "/proc/thread-self/net/ip_tables_names", unix.AF_INET, unix.IPPROTO_IP, 90, 96, 64, 84},
		{"ip6tables", "/proc/thread-self/net/ip6_tables_names", unix.AF_INET6, unix.IPPROTO_IPV6, 142, 152, 64, 84},
		{"arptables", "/proc/thread-self/net/arp_tables_names", unix.AF_INET, unix.IPPROTO_IP, 166, 176, 96, 68},
	}
}

// entriesHead is the size of a struct ipt_get_entries without entries. It is that of all families.
const entriesHead = 40

// openLegacy opens those files that list the older tables of the namespace of the calling thread and are not open. One
// that the kernel does not have stays nil: the first table may load its module.
func openLegacy(files []*os.File) error {
	for i, t := range legacy() {
		if files[i] != nil {
			continue
		}
		f, err := os.Open(t.file)
		switch {
		case err == nil:
			files[i] = f
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return fmt.Errorf("list the tables of %s: %w", t.program, err)
		}
	}
	return nil
}

// openEntered opens the counters of the table of connections of the namespace of the calling thread. It is nil if there
// is no such table, or if this process may not see it.
func openEntered() (*os.File, error) {
	f, err := os.Open("/proc/thread-self/net/stat/nf_conntrack")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the counters of the table of connections: %w", err)
	}
	return f, nil
}

// entered puts into words how many connections, and how many expected ones, programs have entered into the table whose
// counters a file of openEntered has. Packets do not change the first of these counters (insert:
// nf_conntrack_hash_check_insert, net/netfilter/nf_conntrack_core.c), and the second one only with a helper
// (expect_create).
func entered(into state, f *os.File) error {
	if f == nil {
		return nil
	}
	const most = 1 << 20
	text, err := io.ReadAll(io.NewSectionReader(f, 0, most))
	if err != nil {
		return fmt.Errorf("read the counters of the table of connections: %w", err)
	}
	head, rest, _ := strings.Cut(string(text), "\n")
	names := strings.Fields(head)
	for what, column := range map[string]string{
		"connections entered by programs": "insert", "expected connections": "expect_create",
	} {
		at, sum := slices.Index(names, column), uint64(0)
		for line := range strings.Lines(rest) { // a CPU each
			if fields := strings.Fields(line); at >= 0 && at < len(fields) {
				n, err := strconv.ParseUint(fields[at], 16, 64)
				if err != nil {
					return fmt.Errorf("read the counters of the table of connections: %w", err)
				}
				sum += n
			}
		}
		into[thing{"", what}] = strconv.FormatUint(sum, 10)
	}
	return nil
}

// old puts the rules of the older tables into words: how many, and a sum of them without their counters. Files are
// those of openLegacy. The calling thread is in the namespace.
func old(into state, files []*os.File, seed maphash.Seed) error {
	var names [512]byte // the names of the five tables which there are
	for i, t := range legacy() {
		if files[i] == nil {
			continue
		}
		n, err := unix.Pread(int(files[i].Fd()), names[:], 0)
		if err != nil {
			return fmt.Errorf("list the tables of %s: %w", t.program, err)
		}
		list := names[:n]
		if n == 0 {
			continue
		}
		fd, err := unix.Socket(t.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return fmt.Errorf("read the tables of %s: %w", t.program, err)
		}
		for name := range strings.FieldsSeq(string(list)) {
			n, sum, err := t.sum(fd, name, seed)
			if err != nil {
				_ = unix.Close(fd)
				return fmt.Errorf("read table %s of %s: %w", name, t.program, err)
			}
			into[thing{"", fmt.Sprintf("table %s of %s", name, t.program)}] = fmt.Sprintf("%d entries with the sum %x", n, sum)
		}
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	return nil
}

// sum counts and sums up the entries of a table.
func (t tables) sum(fd int, name string, seed maphash.Seed) (entries int, sum uint64, err error) {
	info := make([]byte, t.info)
	copy(info, name)
	if err := getsockopt(fd, t.level, t.base, info); err != nil {
		return 0, 0, err
	}
	n, size := int(u32(info[t.info-8:])), int(u32(info[t.info-4:]))
	all := make([]byte, entriesHead+size)
	copy(all, name)
	binary.NativeEndian.PutUint32(all[32:], uint32(size))
	if err := getsockopt(fd, t.level, t.base+1, all); err != nil {
		return 0, 0, err
	}
	rules := all[entriesHead:]
	for at := 0; at+t.counted+16 <= len(rules); {
		clear(rules[at+t.counted : at+t.counted+16])
		next := int(binary.NativeEndian.Uint16(rules[at+t.next:]))
		if next == 0 {
			break
		}
		at += next
	}
	return n, maphash.Bytes(seed, rules), nil
}

func getsockopt(fd, level, option int, b []byte) error {
	size := uint32(len(b))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Messages and attributes of ipset (include/uapi/linux/netfilter/ipset/ip_set.h).
const (
	ipsetList     = 7
	ipsetProtocol = 6
	ipsetName     = 2
	ipsetADT      = 8
	ipsetTimeout  = 6
	ipsetBytes    = 24
	ipsetPackets  = 25
)

// sets puts the sets of ipset into words. The order of entries means nothing.
func (c *conn) sets(into state, seed maphash.Seed) error {
	counts, sums := map[string]int{}, map[string]uint64{}
	body := []byte{unix.AF_INET, 0, 0, 0, 5, 0, 1, 0, ipsetProtocol, 0, 0, 0}
	err := c.dump(unix.NFNL_SUBSYS_IPSET<<8|ipsetList, body, func() { clear(counts); clear(sums) }, func(m message) {
		rest := from(m.data, 4)
		name := text(attribute(rest, ipsetName))
		if name == "" {
			return
		}
		counts[name] += 0
		for _, entry := range attributes(attribute(rest, ipsetADT)) {
			var h maphash.Hash
			h.SetSeed(seed)
			for kind, data := range attributes(entry) {
				if kind != ipsetTimeout && kind != ipsetBytes && kind != ipsetPackets {
					_ = h.WriteByte(byte(kind))
					_, _ = h.Write(data)
				}
			}
			counts[name]++
			sums[name] += h.Sum64()
		}
	})
	if err != nil {
		return fmt.Errorf("list sets: %w", err)
	}
	for name, n := range counts {
		into[thing{"", "set " + name}] = fmt.Sprintf("%d entries with the sum %x", n, sums[name])
	}
	return nil
}

// generation is the number of the rules of nftables, which grows with every change of them.
func (c *conn) generation() (n uint32, err error) {
	err = c.ask(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, 0, []byte{0, 0, 0, 0}, func(m message) {
		if id := attribute(from(m.data, 4), unix.NFTA_GEN_ID); len(id) == 4 {
			n = binary.BigEndian.Uint32(id)
		}
	})
	if err != nil {
		return 0, fmt.Errorf("read the generation of nftables: %w", err)
	}
	return n, nil
}
