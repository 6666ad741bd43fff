package procfs

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// A Request is a TCP connection that a peer has asked for, and not confirmed: its SYN has arrived.
type Request struct {
	Port uint16         `json:"port"` // that it is for
	From netip.AddrPort `json:"from"`
}

// asked is the state of such a connection (TCP_SYN_RECV, include/net/tcp_states.h; get_openreq4, net/ipv4/tcp_ipv4.c).
const asked = "03"

// Requests lists those of the network namespace of the calling thread (proc_pid_net(5), tcp).
func Requests() (list []Request, err error) {
	for _, name := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile("/proc/thread-self/net/" + name)
		if errors.Is(err, fs.ErrNotExist) && name != "tcp" {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("look for sockets: %w", err)
		}
		list = append(list, requests(string(b))...)
	}
	return list, nil
}

func requests(table string) (list []Request) {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line) // "sl local_address rem_address st …"
		if len(fields) < 4 || fields[3] != asked {
			continue
		}
		at, ok := addrPort(fields[1])
		from, is := addrPort(fields[2])
		if ok && is {
			list = append(list, Request{Port: at.Port(), From: from})
		}
	}
	return list
}

// addrPort reads an address in the format of [hexAddr], a colon and a port in hexadecimal digits.
func addrPort(text string) (netip.AddrPort, bool) {
	address, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(address)
	n, wrong := strconv.ParseUint(port, 16, 16)
	if err != nil || wrong != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 { // the digits of a number, the highest first
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), ok
}
