package procfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Bound reports whether a socket in the network namespace of a process has the given local address and port, and
// listens if it is a TCP socket. Network is "udp" or "tcp". A socket that is bound to the unspecified address counts
// (proc_pid_net(5), udp and tcp).
func Bound(pid int, network string, at netip.AddrPort) (bool, error) {
	state := "" // any
	if network == "tcp" {
		state = listens
	}
	return found(pid, network, state, at)
}

// Connected reports whether a TCP connection with the given local address and port is established in the network
// namespace of a process.
func Connected(pid int, at netip.AddrPort) (bool, error) { return found(pid, "tcp", stands, at) }

// found looks for a socket in a state.
func found(pid int, network, state string, at netip.AddrPort) (bool, error) {
	file := fmt.Sprintf("/proc/%d/net/%s", pid, network)
	for _, name := range []string{file, file + "6"} {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && name != file {
			continue // a kernel without IPv6
		}
		if err != nil {
			return false, fmt.Errorf("look for sockets: %w", err)
		}
		if bound(string(b), state, at) {
			return true, nil
		}
	}
	return false, nil
}

// States of a socket: TCP_LISTEN and TCP_ESTABLISHED, include/net/tcp_states.h.
const (
	listens = "0A"
	stands  = "01"
)

func bound(table, state string, at netip.AddrPort) bool {
	want := []string{hexAddr(at.Addr().Unmap()), hexAddr(netip.IPv4Unspecified()), hexAddr(netip.IPv6Unspecified())}
	if at.Addr().Unmap().Is4() {
		want = append(want, hexAddr(netip.AddrFrom16(at.Addr().As16()))) // an IPv6 socket for both families
	}
	port := fmt.Sprintf("%04X", at.Port())
	for line := range strings.Lines(table) {
		fields := strings.Fields(line) // "sl local_address rem_address st …"
		if len(fields) < 4 || state != "" && fields[3] != state {
			continue
		}
		addr, p, _ := strings.Cut(fields[1], ":")
		if p != port {
			continue
		}
		if slices.Contains(want, addr) {
			return true
		}
	}
	return false
}

// hexAddr writes an address in the kernel's format: words of 32 bits, each a number in the byte order of the machine.
func hexAddr(a netip.Addr) string {
	var b strings.Builder
	for word := range slices.Chunk(a.AsSlice(), 4) {
		fmt.Fprintf(&b, "%08X", binary.NativeEndian.Uint32(word))
	}
	return b.String()
}
