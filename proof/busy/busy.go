package busy

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Again is how often a packet that has to pass is sent once more at most.
const Again = 3

// soon is when it is looked for waiting threads for the first time: who waits for an answer that was lost waits for
// seconds, mostly while nothing else happens.
const soon = 200 * time.Millisecond

// Few is how many of so many packets that have to pass may be sent once more: more are a finding, also beside other
// work.
func Few(of int) int { return max(1, of/10) }

// Watch returns a function that says whether a packet may have been lost since then because of other work: a CPU's
// backlog, a table of neighbours or a queue that the caller knows was full, or threads waited for a CPU half of the
// time or more, until now or in the first [soon]. Each queue returns how many packets it has dropped because it was
// full. The last was seen while five other packages were tested, with fragments of the largest datagrams. Where they
// were dropped is not known.
func Watch(queues ...func() uint64) (excused func() bool) {
	dropped := func() (sum uint64) {
		for _, of := range append(queues, backlogs, neighbours) {
			sum += of()
		}
		return sum
	}
	began, before, waited := time.Now(), dropped(), waits()
	held := func() bool { return waits()-waited >= time.Since(began)/2 }
	var early atomic.Bool
	time.AfterFunc(soon, func() { early.Store(held()) })
	return func() bool { return dropped() > before || early.Load() || held() }
}

// Crowded returns a function that says whether neighbours have found no room since then in the tables that all network
// namespaces share: a host does not answer a neighbour for whom there is none.
func Crowded() (since func() bool) {
	before := neighbours()
	return func() bool { return neighbours() > before }
}

// Losses returns a function that says which packets the machine as a whole has lost since then, of all namespaces: in
// words that go behind what was seen, "" for none. What namespaces share may be taken by other work.
func Losses() (since func() string) {
	dropped, ipv4, ipv6 := backlogs(), fulls("arp_cache"), fulls("ndisc_cache")
	return func() (text string) {
		for _, c := range []struct {
			before, now uint64
			what        string
		}{
			{dropped, backlogs(), "packets were dropped because the backlog of a CPU was full"},
			{ipv4, fulls("arp_cache"), "IPv4 neighbours found no room in the table that all namespaces share"},
			{ipv6, fulls("ndisc_cache"), "IPv6 neighbours found no room in the table that all namespaces share"},
		} {
			if c.now > c.before {
				text += fmt.Sprintf("; meanwhile %d %s", c.now-c.before, c.what)
			}
		}
		return text
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
func backlogs() uint64 { return column("/proc/net/softnet_stat", 1) }

// fulls returns how often there was no room in a table of neighbours, of all namespaces; 0 if the kernel does not say,
// as it does in its first network namespace only (table_fulls, neigh_stat_seq_show, net/core/neighbour.c). A packet
// that a host forwards is dropped then without an error (ip_finish_output2, net/ipv4/ip_output.c).
func fulls(table string) uint64 { return column("/proc/net/stat/"+table, 12) }

func neighbours() uint64 { return fulls("arp_cache") + fulls("ndisc_cache") }

// column adds up a column of hexadecimal numbers, a line for each CPU. Lines of names are left out.
func column(path string, n int) (sum uint64) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > n {
			if one, err := strconv.ParseUint(fields[n], 16, 64); err == nil {
				sum += one
			}
		}
	}
	return sum
}
