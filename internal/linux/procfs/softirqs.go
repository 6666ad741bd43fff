package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// NetSoftirqs returns the number of softirqs of the network that all CPUs have run since boot: NET_TX and NET_RX of
// /proc/softirqs (proc_softirqs in fs/proc/softirqs.c). They are those of the machine, in every namespace.
func NetSoftirqs() (int64, error) {
	b, err := os.ReadFile("/proc/softirqs")
	if err != nil {
		return 0, fmt.Errorf("count softirqs: %w", err)
	}
	return netSoftirqs(string(b))
}

func netSoftirqs(text string) (sum int64, err error) {
	found := 0
	for line := range strings.Lines(text) {
		name, counts, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "NET_TX", "NET_RX":
		default:
			continue
		}
		found++
		for one := range strings.FieldsSeq(counts) { // a column for each CPU; each is an unsigned int, which may overflow
			n, err := strconv.ParseInt(one, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("count softirqs: %s: %w", strings.TrimSpace(name), err)
			}
			sum += n
		}
	}
	if found != 2 {
		return 0, fmt.Errorf("count softirqs: %d lines about the network in /proc/softirqs, want 2", found)
	}
	return sum, nil
}
