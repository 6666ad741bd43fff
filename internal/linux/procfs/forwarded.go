package procfs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Forwarded returns the number of packets of each family that the network namespace of the calling thread has forwarded
// from one link to another (ForwDatagrams of RFC 4293 in /proc/net/snmp, Ip6OutForwDatagrams in /proc/net/snmp6).
// Without IPv6 in the kernel, ipv6 is 0.
func Forwarded() (ipv4, ipv6 uint64, err error) {
	text, err := os.ReadFile("/proc/thread-self/net/snmp")
	if err != nil {
		return 0, 0, fmt.Errorf("count forwarded packets: %w", err)
	}
	if ipv4, err = forwarded4(string(text)); err != nil {
		return 0, 0, fmt.Errorf("count forwarded packets: %w", err)
	}
	text, _ = os.ReadFile("/proc/thread-self/net/snmp6") // absent without IPv6
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "Ip6OutForwDatagrams" {
			if ipv6, err = strconv.ParseUint(f[1], 10, 64); err != nil {
				return 0, 0, fmt.Errorf("count forwarded packets: %w", err)
			}
		}
	}
	return ipv4, ipv6, nil
}

// forwarded4 reads the number from two lines that begin with "Ip:": the names and the values.
func forwarded4(text string) (uint64, error) {
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
		for i, name := range names {
			if name == "ForwDatagrams" && i < len(f) {
				return strconv.ParseUint(f[i], 10, 64)
			}
		}
	}
	return 0, errors.New("/proc/net/snmp has no ForwDatagrams of Ip")
}
