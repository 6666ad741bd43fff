package bpf

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/dump"
)

// A Hook is a place at a link where programs run.
type Hook int

// The hooks. On one link, the programs of TCXIngress run before that of Classifier (net/core/dev.c,
// sch_handle_ingress).
const (
	// TCXIngress and TCXEgress hold several programs in order; Linux 6.6 and newer. For each program that is added or
	// removed, the kernel waits for an RCU grace period (kernel/bpf/tcx.c, tcx_entry_sync) while it holds the lock of
	// all configuration. That takes about 8 ms at HZ=250, however many processes wait.
	TCXIngress Hook = iota
	TCXEgress
	// Classifier is the older hook at the same place as TCXIngress: a tc classifier that decides directly, on a
	// queueing discipline of type clsact. It needs no grace period.
	Classifier
	// XDP is in the driver's receive path; there is only one program.
	XDP
	// NetkitPeer is on the far end of a netkit, at which its container sends. The link is the near end.
	NetkitPeer
)

// String returns the name of the hook in errors.
func (h Hook) String() string {
	return [...]string{"tcx ingress", "tcx egress", "tc ingress", "xdp", "netkit peer"}[h]
}

func (h Hook) attachType() ebpf.AttachType {
	return map[Hook]ebpf.AttachType{
		TCXIngress: ebpf.AttachTCXIngress, TCXEgress: ebpf.AttachTCXEgress, NetkitPeer: ebpf.AttachNetkitPeer,
	}[h]
}

// Links holds the links of a namespace and the programs hooked to them. It can be used from any thread.
type Links struct {
	h     *netlink.Handle
	index map[string]int
	mtu   map[string]int
	xdp   map[int]uint32 // the program at a link
	bare  map[string]bool
	xfrm  map[string]bool
}

// Open reads the current links of the namespace of the calling thread.
func Open() (*Links, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	l := &Links{
		h: h, index: map[string]int{}, mtu: map[string]int{}, xdp: map[int]uint32{}, bare: map[string]bool{},
		xfrm: map[string]bool{},
	}
	list, err := dump.Whole(h.LinkList)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("list links: %w", err)
	}
	for _, found := range list {
		a := found.Attrs()
		l.index[a.Name], l.mtu[a.Name] = a.Index, a.MTU
		l.xfrm[a.Name] = found.Type() == "xfrm"
		l.bare[a.Name] = a.EncapType != "ether" && a.EncapType != "loopback"
		if a.Xdp != nil && a.Xdp.Attached {
			l.xdp[a.Index] = a.Xdp.ProgId
		}
	}
	return l, nil
}

// Close closes the socket.
func (l *Links) Close() { l.h.Close() }

// Index returns the index of the link with this name; 0 if there is none.
func (l *Links) Index(name string) int { return l.index[name] }

// MTU returns that of the link with this name, in bytes; 0 if there is none.
func (l *Links) MTU(name string) int { return l.mtu[name] }

// Bare reports whether packets on the link with this name have no Ethernet header, as on a layer-3 tunnel.
func (l *Links) Bare(name string) bool { return l.bare[name] }

// BareIn reports the same for packets that the link receives. An IPsec link itself has no Ethernet header, but packets
// that arrive on it still have the header of the frame in which they were encrypted (net/ipv4/xfrm4_input.c and
// net/xfrm/xfrm_input.c: skb_mac_header_rebuild).
func (l *Links) BareIn(name string) bool { return l.bare[name] && !l.xfrm[name] }

// Attach hooks a program to a link, before or after all other programs there. It stays until the Closer is closed, its
// process ends or the link is gone. A Classifier stays even if its process ends. Closing succeeds if the link is gone.
// The calling thread must be in the namespace of the links.
func (l *Links) Attach(p *ebpf.Program, h Hook, index int, first bool) (io.Closer, error) {
	what := fmt.Sprintf("attach a program to link %d, %s", index, h)
	anchor := link.Tail()
	if first {
		anchor = link.Head()
	}
	var c link.Link
	var err error
	switch h {
	case TCXIngress, TCXEgress:
		c, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: p, Attach: h.attachType(), Anchor: anchor})
	case NetkitPeer:
		c, err = link.AttachNetkit(link.NetkitOptions{Interface: index, Program: p, Attach: h.attachType(), Anchor: anchor})
	case XDP:
		c, err = link.AttachXDP(link.XDPOptions{Interface: index, Program: p, Flags: link.XDPDriverMode})
	case Classifier:
		c, err := l.classify(p, index)
		if err != nil {
			return nil, Explain(what, h, err)
		}
		return c, nil
	}
	if err != nil {
		return nil, Explain(what, h, err)
	}
	return attached{c}, nil
}

// attached is a program at a link.
type attached struct{ link link.Link }

// Close detaches the program before it closes the descriptor. A forked child that has not yet called exec holds a copy
// of the descriptor, which would keep the program attached.
func (a attached) Close() error { return errors.Join(a.link.Detach(), a.link.Close()) }

// classifier is the queueing discipline of a program; removing it removes the program.
type classifier struct {
	l     *Links
	index int
}

func (l *Links) classify(p *ebpf.Program, index int) (io.Closer, error) {
	qdisc := clsact(index)
	if err := l.h.QdiscAdd(qdisc); err != nil {
		return nil, err
	}
	info, err := p.Info()
	if err == nil {
		err = l.h.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{
				LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL,
			},
			Fd: p.FD(), Name: info.Name, DirectAction: true,
		})
	}
	if err != nil {
		return nil, errors.Join(err, l.h.QdiscDel(qdisc))
	}
	return classifier{l, index}, nil
}

func clsact(index int) netlink.Qdisc {
	return &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
		},
		QdiscType: "clsact",
	}
}

// Close removes the discipline. ENODEV means that the link is gone; ENOENT and EINVAL mean that the discipline is.
func (c classifier) Close() error {
	err := c.l.h.QdiscDel(clsact(c.index))
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// Attached returns the IDs of the programs at a hook of a link, in the order in which they run. The calling thread must
// be in the namespace of the links.
func (l *Links) Attached(h Hook, index int) ([]ebpf.ProgramID, error) {
	switch h {
	case XDP:
		if id := l.xdp[index]; id != 0 {
			return []ebpf.ProgramID{ebpf.ProgramID(id)}, nil
		}
		return nil, nil
	case Classifier:
		list, err := l.h.FilterList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}, netlink.HANDLE_MIN_INGRESS)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // no queueing discipline
			return nil, fmt.Errorf("read programs of link %d, %s: %w", index, h, err)
		}
		var ids []ebpf.ProgramID
		for _, f := range list {
			if b, ok := f.(*netlink.BpfFilter); ok {
				ids = append(ids, ebpf.ProgramID(b.Id))
			}
		}
		return ids, nil
	default:
		r, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: h.attachType()})
		if errors.Is(err, unix.EINVAL) { // the kernel does not know the hook
			err = errors.Join(ebpf.ErrNotSupported, err)
		}
		if err != nil {
			return nil, Explain(fmt.Sprintf("read programs of link %d, %s", index, h), h, err)
		}
		ids := make([]ebpf.ProgramID, len(r.Programs))
		for i, p := range r.Programs {
			ids[i] = p.ID
		}
		return ids, nil
	}
}

// A Program is a hooked program, with its maps.
type Program struct {
	ID   ebpf.ProgramID
	Info *ebpf.ProgramInfo
	Maps map[string]*ebpf.Map // by name
}

// Memory returns the memory of the program and its maps as the kernel reports it, in bytes. It is the memlock of their
// descriptors in /proc/PID/fdinfo, which since Linux 6.4 is the memory allocated by maps, plus the machine code.
func (p *Program) Memory() (int64, error) {
	n, ok := p.Info.Memlock()
	if !ok {
		return 0, &linux.UnsupportedError{What: "read the memory of a program", Missing: "memlock in /proc/PID/fdinfo"}
	}
	sum := int64(n)
	if n, err := p.Info.JitedSize(); err == nil {
		sum += int64(n)
	}
	for name, m := range p.Maps {
		info, err := m.Info()
		if err != nil {
			return 0, fmt.Errorf("memory of map %q: %w", name, err)
		}
		n, _ := info.Memlock() // a trie without entries reports none
		sum += int64(n)
	}
	return sum, nil
}

// Find looks for a program by its name among these IDs. It returns nil if there is none.
func Find(ids []ebpf.ProgramID, name string) (*Program, error) {
	for _, id := range ids {
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, unix.ENOENT) { // it was removed in the meantime
			continue
		}
		if err != nil {
			return nil, Explain(fmt.Sprintf("open program %d", id), TCXIngress, err)
		}
		found, err := open(p, id, name)
		if err := errors.Join(err, p.Close()); err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}

func open(p *ebpf.Program, id ebpf.ProgramID, name string) (*Program, error) {
	info, err := p.Info()
	if err != nil || info.Name != name {
		return nil, err
	}
	maps, _ := info.MapIDs()
	found := &Program{ID: id, Info: info, Maps: map[string]*ebpf.Map{}}
	for _, m := range maps {
		opened, err := ebpf.NewMapFromID(m)
		if err == nil {
			var mi *ebpf.MapInfo
			if mi, err = opened.Info(); err == nil {
				found.Maps[mi.Name] = opened
				continue
			}
			err = errors.Join(err, opened.Close())
		}
		found.Close()
		return nil, Explain(fmt.Sprintf("open map %d", m), TCXIngress, err)
	}
	return found, nil
}

// Close closes the maps. The program stays hooked.
func (p *Program) Close() {
	for _, m := range p.Maps {
		_ = m.Close()
	}
}

// Has reports whether the program is among these IDs.
func (p *Program) Has(ids []ebpf.ProgramID) bool { return slices.Contains(ids, p.ID) }

// Explain turns a refusal of the kernel into a [linux.UnsupportedError].
func Explain(what string, h Hook, err error) error {
	if err == nil {
		return nil
	}
	u := &linux.UnsupportedError{What: what, Err: err}
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		u.Missing, u.Hint = "CAP_BPF and CAP_NET_ADMIN outside of any user namespace",
			"run as root; a container needs --privileged"
		u.Err = unix.EPERM // the loader blames the limit of locked memory, which has not applied since Linux 5.11
	case errors.Is(err, unix.ENOSYS):
		u.Missing, u.Hint = "eBPF", "a kernel with CONFIG_BPF_SYSCALL"
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EOPNOTSUPP), h == Classifier &&
		errors.Is(err, unix.ENOENT):
		switch h {
		case TCXIngress, TCXEgress:
			u.Missing, u.Hint = "tcx", "Linux 6.6 or newer; attach=tc does the same on older kernels"
		case NetkitPeer:
			u.Missing, u.Hint = "eBPF on netkit", "Linux 6.7 or newer with CONFIG_NETKIT; attach=tcx is the same with veth"
		case XDP:
			u.Missing, u.Hint = "XDP in the driver of the link",
				"a kernel whose veth has it (Linux 4.19), and an MTU that fits; attach=tcx has no such limits"
		case Classifier:
			u.Missing, u.Hint = "classifiers of tc in eBPF",
				"CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF; attach=tcx does without"
		}
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	return u
}

// Standing says which programs are at a hook that holds several, as attachments with their numbers: none is "". Each
// attachment has a number of its own, and the revision of the hook grows with every change. The calling thread is in
// the namespace of the link.
func Standing(h Hook, index int) (string, error) {
	r, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: h.attachType()})
	if errors.Is(err, unix.EINVAL) { // the kernel does not know the hook
		err = errors.Join(ebpf.ErrNotSupported, err)
	}
	if err != nil {
		return "", Explain(fmt.Sprintf("read programs of link %d, %s", index, h), h, err)
	}
	if len(r.Programs) == 0 {
		return "", nil
	}
	list := make([]string, len(r.Programs))
	for i, p := range r.Programs {
		list[i] = fmt.Sprintf("program %d", p.ID)
		if id, ok := p.LinkID(); ok {
			list[i] += fmt.Sprintf(" (attachment %d)", id)
		}
	}
	return fmt.Sprintf("revision %d: %s", r.Revision, strings.Join(list, " ")), nil
}
