package watch

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/netns"
)

// Listen takes the sockets that there are now for known.
func (n *Namespace) Listen() error {
	n.listening, n.listened = nil, nil
	for _, k := range hearings() {
		if n.sockets == nil {
			return nil
		}
		list, err := n.hear(k)
		if err != nil && absent(err) {
			n.sockets.close()
			n.sockets = nil
			n.missing = append(n.missing, "sockets")
			return nil
		}
		if err != nil {
			return err
		}
		n.listening, n.listened = append(n.listening, list), append(n.listened, n.audits)
	}
	return nil
}

// heard lists the sockets of a kind that are new: of each kind in turn, or of all.
func (n *Namespace) heard(all bool) (list []Socket, err error) {
	if n.sockets == nil {
		return nil, nil
	}
	n.turn++
	for i, k := range hearings() {
		if !all && n.turn%len(hearings()) != i {
			continue
		}
		is, err := n.hear(k)
		if err != nil {
			return nil, err
		}
		for _, s := range is {
			if _, known := slices.BinarySearchFunc(n.listening[i], s, func(a, b Socket) int {
				return cmp.Compare(a.Name, b.Name)
			}); !known {
				s.Back, s.kind = n.audits-n.listened[i], i
				list = append(list, s)
			}
		}
		n.listening[i], n.listened[i] = is, n.audits
	}
	return list, nil
}

// IsOpen says whether a socket that an audit found is still open. One without an inode was being closed.
func (n *Namespace) IsOpen(s Socket) (bool, error) {
	if s.Inode == 0 || n.sockets == nil {
		return false, nil
	}
	is, err := n.hear(hearings()[s.kind])
	return slices.ContainsFunc(is, func(o Socket) bool { return o.Inode == s.Inode }), err
}

// sockDiag is SOCK_DIAG_BY_FAMILY (include/uapi/linux/sock_diag.h), and inetDiag the size of inet_diag_req_v2.
const (
	sockDiag  = 20
	inetDiag  = 56
	listening = 1 << 10 // TCP_LISTEN (include/net/tcp_states.h)
	unbound   = 1 << 7  // TCP_CLOSE: a socket of UDP without a peer
)

// A Socket is one that hears whoever sends to it.
type Socket struct {
	Name  string // "tcp 10.1.0.2:80"
	Inode uint32
	Back  int // see [Change]
	kind  int // of hearings
}

// A kind of sockets that hear whoever sends to them.
type hearing struct {
	name     string
	protocol byte
	states   uint32
	family   byte
	size     int // of an address
	// files list the sockets instead, in the namespace: for those that hear what is sent to others, too.
	files []listed
}

// hearings are all kinds. The kernel walks a table of the whole machine for each but the last.
func hearings() []hearing {
	return []hearing{
		{name: "tcp", protocol: unix.IPPROTO_TCP, states: listening, family: unix.AF_INET, size: 4},
		{name: "tcp", protocol: unix.IPPROTO_TCP, states: listening, family: unix.AF_INET6, size: 16},
		{name: "udp", protocol: unix.IPPROTO_UDP, states: unbound, family: unix.AF_INET, size: 4},
		{name: "udp", protocol: unix.IPPROTO_UDP, states: unbound, family: unix.AF_INET6, size: 16},
		{name: "raw", files: []listed{
			{name: "packet", file: "packet", number: 8, hears: hearsProtocol(3)},
			{name: "raw ipv4", file: "raw", number: 9, hears: hearsProtocol(1)},
			{name: "raw ipv6", file: "raw6", number: 9, hears: hearsProtocol(1)},
			{name: "unix", file: "unix", number: 6, hears: unixHears},
		}},
	}
}

// listed is a file of /proc/net that lists sockets, a line each behind a head, with the column of the inode
// (packet_seq_show, net/packet/af_packet.c; raw_sock_seq_show, net/ipv4/raw.c; __ip6_dgram_sock_seq_show,
// net/ipv6/datagram.c; unix_seq_show, net/unix/af_unix.c).
type listed struct {
	name, file string
	number     int
	hears      func(fields []string) string // what a socket hears; "": only what is sent by its peer
}

// hearsProtocol reads the column of a protocol: behind an address it is in the place of a port.
func hearsProtocol(column int) func(fields []string) string {
	return func(fields []string) string {
		return "protocol 0x" + strings.ToLower(fields[column][strings.LastIndexByte(fields[column], ':')+1:])
	}
}

// unixHears reads what is known of a unix socket: a reference count, a protocol, flags, a type, a state, an inode and a
// name, which may have spaces. Abstract names begin with @ and belong to a network namespace (unix(7)).
func unixHears(fields []string) string {
	const (
		flags, kind, state, path = 3, 4, 5, 7
		accepts                  = "00010000" // __SO_ACCEPTCON (include/linux/net.h)
		datagram, unconnected    = "0002", "01"
	)
	if len(fields) > path && (fields[flags] == accepts || fields[kind] == datagram && fields[state] == unconnected) {
		return strings.Join(fields[path:], " ")
	}
	return ""
}

// sockets adds those of the namespace of the calling thread. Each has a name of its own: of several that hear the same,
// each counts.
func (l listed) sockets(list []Socket) ([]Socket, error) {
	text, err := os.ReadFile("/proc/thread-self/net/" + l.file)
	if errors.Is(err, fs.ErrNotExist) { // the kernel has none of that kind
		return list, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list sockets: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	for line := range strings.Lines(rest) {
		fields := strings.Fields(line)
		if len(fields) <= l.number {
			continue
		}
		hears := l.hears(fields)
		if hears == "" {
			continue
		}
		inode, err := strconv.ParseUint(fields[l.number], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("list sockets: read inode %q", fields[l.number])
		}
		list = append(list, Socket{
			Name: fmt.Sprintf("%s, %s, number %d", l.name, hears, inode), Inode: uint32(inode),
		})
	}
	return list, nil
}

// hear lists the sockets of a kind.
func (n *Namespace) hear(k hearing) (list []Socket, err error) {
	if k.files == nil {
		return n.sockets.listeners(k)
	}
	err = netns.Do(n.fd, func() error {
		for _, f := range k.files {
			if list, err = f.sockets(list); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b Socket) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// listeners lists the sockets of a kind.
func (c *conn) listeners(k hearing) ([]Socket, error) {
	var list []Socket
	body := make([]byte, inetDiag)
	body[0], body[1] = k.family, k.protocol
	binary.NativeEndian.PutUint32(body[4:], k.states)
	err := c.ask(sockDiag, unix.NLM_F_DUMP, body, func(m message) {
		if len(m.data) < 72 { // struct inet_diag_msg
			return
		}
		if port := binary.BigEndian.Uint16(m.data[4:]); port != 0 {
			list = append(list, Socket{
				Name: fmt.Sprintf("%s %s port %d", k.name, ip(m.data[8:8+k.size]), port), Inode: u32(m.data[68:]),
			})
		}
	})
	if err != nil && !errors.Is(err, unix.ENOENT) { // the kernel cannot say
		return nil, fmt.Errorf("list sockets of %s: %w", k.name, err)
	}
	slices.SortFunc(list, func(a, b Socket) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
