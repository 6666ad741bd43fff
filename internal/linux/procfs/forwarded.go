package procfs

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Forwarded returns the number of packets of each family that the network namespace of the calling thread has forwarded
// from one link to another (ForwDatagrams of RFC 4293). Without IPv6 in the kernel, ipv6 is 0.
func Forwarded() (ipv4, ipv6 uint64, err error) {
	if ipv4, ipv6, err = counted("ForwDatagrams", "Ip6OutForwDatagrams"); err != nil {
		err = fmt.Errorf("count forwarded packets: %w", err)
	}
	return ipv4, ipv6, err
}

// Fragments returns the number of fragments of each family that the network namespace of the calling thread was asked
// to put together (ReasmReqds of RFC 4293). Without IPv6 in the kernel, ipv6 is 0.
func Fragments() (ipv4, ipv6 uint64, err error) {
	if ipv4, ipv6, err = counted("ReasmReqds", "Ip6ReasmReqds"); err != nil {
		err = fmt.Errorf("count fragments: %w", err)
	}
	return ipv4, ipv6, err
}

// counted reads a counter of IP from /proc/net/snmp, and one from /proc/net/snmp6.
func counted(name, name6 string) (ipv4, ipv6 uint64, err error) {
	text, err := os.ReadFile("/proc/thread-self/net/snmp")
	if err != nil {
		return 0, 0, err
	}
	if ipv4, err = counted4(string(text), name); err != nil {
		return 0, 0, err
	}
	text, _ = os.ReadFile("/proc/thread-self/net/snmp6") // absent without IPv6
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name6 {
			if ipv6, err = strconv.ParseUint(f[1], 10, 64); err != nil {
				return 0, 0, err
			}
		}
	}
	return ipv4, ipv6, nil
}

// counted4 reads the number from two lines that begin with "Ip:": the names and the values.
func counted4(text, name string) (uint64, error) {
	var names []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != "Ip:" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		if i := slices.Index(names, name); i >= 0 && i < len(f) {
			return strconv.ParseUint(f[i], 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/net/snmp has no %s of Ip", name)
}
