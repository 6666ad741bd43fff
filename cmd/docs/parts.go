package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// outcome is the result of a check of a conformance suite, as go test -v prints it.
type outcome struct {
	part, on, check string // on is the network under a filter and its hosts, "bridge,hosts=1"; "" for a network
	result          string // "PASS", "SKIP", "FAIL"
	where           string // the kernel, as given on the command line
}

// ended matches the line that go test prints at the end of a test.
func ended() *regexp.Regexp {
	return regexp.MustCompile(`(PASS|SKIP|FAIL): ((?:TestConformance|TestFlannel|TestTap)/\S+)`)
}

// programs matches the parameters of a part that are where its programs are on the machine of the tests.
func programs() *regexp.Regexp { return regexp.MustCompile(`,(?:bin|daemon|etcd)=[^,)]*`) }

// families are those of a part's containers.
func families(part string) []string {
	if strings.Contains(part, "plugin=flannel") {
		return []string{"ipv4"}
	}
	return []string{"ipv4", "ipv6"}
}

// outcomes reads the output of go test -v.
func outcomes(r io.Reader, where string) ([]outcome, error) {
	line, paths := ended(), programs()
	var list []outcome
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		m := line.FindStringSubmatch(in.Text())
		if m == nil {
			continue
		}
		names := strings.Split(strings.ReplaceAll(paths.ReplaceAllString(m[2], ""), "_", " "), "/")[1:]
		o := outcome{check: names[len(names)-1], result: m[1], where: where}
		switch {
		case len(names) >= 3 && strings.Contains(names[len(names)-2], ",hosts="):
			o.part, o.on = names[len(names)-3], names[len(names)-2]
		case len(names) >= 2:
			o.part = names[len(names)-2]
		}
		if o.part != "" && !strings.HasPrefix(o.part, own) {
			list = append(list, o)
		}
	}
	return list, in.Err()
}

// own is the prefix of the filter with which filtertest tests itself; it is not a part.
const own = "script("

// column is a column of a table. A part gets the mark if it passed all of these checks.
type column struct {
	title  string
	checks []string
}

func networkColumns() []column {
	return []column{
		{"one host", []string{"packets, 1 hosts, 1 pairs", "packets, 1 hosts, 3 pairs"}},
		{"two hosts", []string{"packets, 2 hosts, 1 pairs", "packets, 2 hosts, 3 pairs"}},
		{"way counted", []string{"path, 1 hosts", "path, 2 hosts"}},
		{"tampering noticed", []string{"tampering"}},
		{"removed without a trace", []string{"undo, 1 hosts", "undo, 2 hosts"}},
	}
}

func filterColumns() []column {
	return []column{
		{"allowed passes, all else is refused", []string{"packets, ipv4 and ipv6"}},
		{"a family that is not listed is refused", []string{"packets, ipv4"}},
		{"changed while flows go on", []string{"change"}},
		{"tampering noticed", []string{"tampering"}},
		{"removed without a trace", []string{"undo"}},
	}
}

// The marks of results in tables.
const (
	passed  = "✓"
	skipped = "–"
	failed  = "✗"
)

// mark sums up the checks of a column for a part.
func mark(list []outcome, c column) string {
	m, ran := "", false
	for _, name := range c.checks {
		i := slices.IndexFunc(list, func(o outcome) bool { return o.check == name })
		ran = ran || i >= 0
		switch {
		case i < 0: // the network means nothing in such a lab
		case list[i].result == "SKIP":
			return skipped
		case list[i].result == "FAIL":
			m = failed
		case m == "":
			m = passed
		}
	}
	if !ran {
		return skipped
	}
	return m
}

// cells are those of a row, with a mark for each column.
func cells(marks map[string]string, columns []string) string {
	var b strings.Builder
	for _, name := range columns {
		fmt.Fprintf(&b, " %s |", cmp.Or(marks[name], skipped))
	}
	return b.String()
}

// partsDocument returns the beginning of docs/parts.md, on networks and filters.
func partsDocument(all []outcome, of origin) string {
	var b strings.Builder
	b.WriteString(`# Parts and what tests show of them

This page shows what the tests of networks, filters and runtimes have found. All networks pass the same conformance
suite (network/networktest), and so do all filters (filter/filtertest), with real packets of both families between
network namespaces. ` + "`make parts`" + ` runs the suites and writes this page.
A row is a part with the parameters that it was tried with; all others have their defaults.

The tables of networks and filters are of ` + of.String() + `.

- ✓ all checks of the column passed, for both families; – the column means nothing for this part, or this kernel lacks
  what it needs. The page is written only if no check fails.
- *Way counted*: packets went to the neighbours in the plan, every device on their way counted them, and other devices
  did not. The checks noticed neighbours at other addresses. On one host they also noticed a link around the network
  between two containers, and across hosts one between two hosts that route. No link around is tried with ` + "`host`" +
		` and ` + "`nat`" + `, nor across hosts with ` + "`macvlan`, `ipvlan`, `passthrough`, `overlay`" + ` and ` +
		"`cni`" + ` by such plugins: their packets follow no route of a host.
- *Tampering noticed*: the test removed or changed what the part had put into the kernel, in several ways. The part's
  verification reported it each time.
- *Removed without a trace*: afterwards the namespaces were as before, and removing the part again did no harm.
- *Kernel*: the kernel of the tests. *Guest* is Debian's kernel in a virtual machine, mainly for parts that the other
  kernel lacks.

`)
	table := func(head []string, columns []column, of func(outcome) ([]string, bool)) {
		for _, c := range columns {
			head = append(head, c.title)
		}
		b.WriteString("| " + strings.Join(append(head, "kernel"), " | ") + " |\n|" + strings.Repeat(" --- |", len(head)+1) +
			"\n")
		type row struct{ key, where string }
		var rows []row
		groups := map[row][]outcome{}
		first := map[row]outcome{}
		for _, o := range all {
			key, ok := of(o)
			if !ok {
				continue
			}
			r := row{strings.Join(key, " | "), o.where}
			if groups[r] == nil {
				rows = append(rows, r)
				first[r] = o
			}
			groups[r] = append(groups[r], o)
		}
		for _, r := range rows {
			var marks []string
			for _, c := range columns {
				marks = append(marks, mark(groups[r], c))
			}
			if !slices.ContainsFunc(marks, func(m string) bool { return m != skipped }) {
				continue // no check ran on this kernel
			}
			for _, family := range families(first[r].part) {
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.key, family, strings.Join(marks, " | "), r.where)
			}
		}
	}
	b.WriteString("## Networks\n\nPairs of containers, one and three of them, on one host and across two, exchange " +
		"echoes, datagrams of 28 bytes, of the full MTU and of 65,507 bytes, and a stream.\n\n")
	table([]string{"network", "family"}, networkColumns(), func(o outcome) ([]string, bool) {
		return []string{"`" + o.part + "`"}, o.on == "" &&
			slices.ContainsFunc(networkColumns(), func(c column) bool { return slices.Contains(c.checks, o.check) }) &&
			!strings.Contains(o.check, "ipv")
	})
	b.WriteString(`
## Filters

A filter gets an allow-list of pairs. It stands in a lab of the network in its row, with its parameters, on one host
unless the row says otherwise.

- *Allowed passes, all else is refused*: the allowed pair passes echoes, datagrams of 28 bytes, of the full MTU and of
  65,507 bytes, and a stream, in its direction. All other containers, ports (including
  port 0 and the other ports of the source), protocols and directions are refused.
  Packets with a pair's own addresses pass whoever sends them, unless ` + "`antispoof=true`" + ` ([spoofed
  addresses](filters.md#spoofed-addresses)). Fragments without the first one of
  their packet are treated as the filter describes ([filters.md](filters.md)).
  If the filter stands on the host, containers reach no address of any host by any protocol, port or MAC address,
  except with ARP, neighbour discovery and, if the filter tracks connections, answers to connections of the host, and
  packets from the host to containers pass. If it stands inside the container, programs of the container reach no host,
  but its root can send past the filter, and packets from the host do not pass.
- *A family that is not listed is refused*: if only IPv4 pairs are listed, nothing passes by IPv6.
- *Changed while flows go on*: a rule is added to the loaded ones and removed again. Flows that were allowed before go
  on, and packets that the new rule allows pass as long as it is loaded.

`)
	table([]string{"filter", "on network", "family"}, filterColumns(), func(o outcome) ([]string, bool) {
		return []string{"`" + o.part + "`", place(o.on)}, o.on != ""
	})
	return b.String()
}

// place formats the network that a filter was tried on, "routed,hosts=2", for readers.
func place(on string) string {
	network, hosts, _ := strings.Cut(on, ",hosts=")
	if network = "`" + network + "`"; hosts == "1" {
		return network
	}
	return network + ", " + hosts + " hosts"
}
