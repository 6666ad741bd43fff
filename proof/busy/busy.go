package busy

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Again is how often a packet that has to pass is sent once more at most.
const Again = 3

// enough is how long threads have to wait for a CPU at least, in all, if something that was tried for longer has an
// excuse: who waits for an answer that was lost waits for seconds, mostly on an idle machine.
const enough = 100 * time.Millisecond

// Few is how many of so many packets that have to pass may be sent once more: more are a finding, also beside other
// work.
func Few(of int) int { return max(1, of/10) }

// Watch returns a function that says whether a packet may have been lost since then because of other work: a CPU's
// backlog or a queue that the caller knows was full, or threads waited for a CPU half of the time, or for as long as it
// takes to fill a queue ([enough]). Each queue returns how many packets it has dropped because it was full. The last
// was seen while five other packages were tested, with fragments of the largest datagrams. Where they were dropped is
// not known.
func Watch(queues ...func() uint64) (excused func() bool) {
	dropped := func() (sum uint64) {
		for _, of := range append(queues, backlogs) {
			sum += of()
		}
		return sum
	}
	began, before, waited := time.Now(), dropped(), waits()
	return func() bool {
		return dropped() != before || waits()-waited >= min(time.Since(began)/2, enough)
	}
}

// waits returns for how long threads have waited for a CPU since the machine started; 0 if the kernel does not say
// (Documentation/accounting/psi.rst).
func waits() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n") // some avg10=… avg60=… avg300=… total=µs
	_, total, _ := strings.Cut(line, "total=")
	us, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

// backlogs returns how many packets the CPUs have dropped because their backlog was full, of all namespaces; 0 if the
// kernel does not say (the second column of /proc/net/softnet_stat, softnet_seq_show, net/core/net-procfs.c). Floods of
// others fill it.
func backlogs() (sum uint64) {
	text, err := os.ReadFile("/proc/net/softnet_stat")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return 0
		}
		n, err := strconv.ParseUint(fields[1], 16, 32)
		if err != nil {
			return 0
		}
		sum += n
	}
	return sum
}
