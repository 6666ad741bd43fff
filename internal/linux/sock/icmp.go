package sock

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// echoes finds the number of received echo requests in the kernel's counters. For IPv6 each line has a name and a
// value; for IPv4 each protocol has two lines, names and values (proc_pid_net(5)).
func echoes(text string, ipv6 bool) (int64, error) {
	const name4, name6 = "InEchos", "Icmp6InEchos"
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case ipv6 && len(fields) == 2 && fields[0] == name6:
			return counted(fields[1])
		case ipv6 || len(fields) == 0 || fields[0] != "Icmp:":
		case names == nil:
			names = fields
		default:
			if i := slices.Index(names, name4); i >= 0 && i < len(fields) {
				return counted(fields[i])
			}
		}
	}
	return 0, fmt.Errorf("count echo requests: the kernel has no counter %s or %s", name4, name6)
}

// counted reads a counter, which is never negative.
func counted(field string) (int64, error) {
	n, err := strconv.ParseUint(field, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("count echo requests: %w", err)
	}
	return int64(n), nil
}
