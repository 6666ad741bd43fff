package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// outcome is what came of a check of a conformance suite, as go test -v tells it.
type outcome struct {
	part, on, check string // on is the network that a filter was tried on, and its hosts; "" of a network
	result          string // "PASS", "SKIP", "FAIL"
	where           string // the kernel it was tried on
}

// ended is the line that tells how a test ended.
func ended() *regexp.Regexp {
	return regexp.MustCompile(`(PASS|SKIP|FAIL): (TestConformance/\S+)`)
}

// outcomes reads what tests said.
func outcomes(r io.Reader, where string) ([]outcome, error) {
	line := ended()
	var list []outcome
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		m := line.FindStringSubmatch(in.Text())
		if m == nil {
			continue
		}
		names := strings.Split(strings.ReplaceAll(m[2], "_", " "), "/")[1:]
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

// own begins the names of the filter that filtertest tries itself with, which is no part.
const own = "script("

// column is a column of a table: the checks that must all have passed for its mark.
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

// marks are what a table shows of a result.
const (
	passed  = "✓"
	skipped = "–"
	failed  = "✗"
)

// mark sums up some checks of a part.
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

// partsDocument writes docs/parts.md.
func partsDocument(all []outcome) (string, error) {
	if len(all) == 0 {
		return "", errors.New("no test of a conformance suite is in what was given (hint: go test -v -run TestConformance " +
			"./network/... ./filter/...)")
	}
	var b strings.Builder
	b.WriteString(`# Parts and what is shown of them

What nettoll's networks and filters were seen to do. Every network runs one and the same suite of checks (network/networktest), and so does every filter (filter/filtertest), with real packets
of both families between network namespaces. ` + "`make parts`" + ` runs them and writes this page. A row is a part with the parameters that it was tried with; all others have their defaults.

- ✓ everything that the column stands for held, of both families; – it means nothing for this part, or this kernel lacks what it needs. The page is not written of checks that fail.
- *Way counted*: packets went to the neighbours that the plan has, every device on their way counted them, and devices beside it did not. Neighbours at other addresses and wires around the
  network were seen.
- *Tampering noticed*: what the part has put into the kernel was taken away or changed behind nettoll's back, in several ways, and its verification said so each time.
- *Removed without a trace*: afterwards the namespaces were as before, and removing it again did no harm.
- *Kernel*: the one that it was tried on. *Guest* is Debian's in a virtual machine, above all for what the other one lacks.

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
				continue // nothing of it runs on this kernel
			}
			for _, family := range []string{"ipv4", "ipv6"} {
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

A filter is told which pairs may talk, and stands in a lab of the network beside it, on one host if nothing else is said (a column names the network with its parameters).

- *Allowed passes, all else is refused*: the allowed pair passes echoes, datagrams of 28 bytes, of the full MTU and of 65,507 bytes, and a stream, in its direction; every other container, port
  (port 0 among them, and every port of the source that is not the pair's own), protocol and direction is refused. Fragments without the first of their packet are treated as the filter says ([filters.md](filters.md)).
  Containers reach no address of any host, whatever the protocol, the port and the MAC address, but by ARP, neighbour discovery and, where connections are known, answers to what the host began. What
  the host itself sends to containers passes, unless the filter stands inside the container.
- *A family that is not listed is refused*: with pairs of IPv4 alone nothing passes by IPv6.
- *Changed while flows go on*: a rule is added to those that stand and taken away again; flows that were allowed before go on, and what the rule allowed passes as long as it stands.

`)
	table([]string{"filter", "on network", "family"}, filterColumns(), func(o outcome) ([]string, bool) {
		return []string{"`" + o.part + "`", place(o.on)}, o.on != ""
	})
	return b.String(), nil
}

// place writes the network that a filter was tried on, "routed,hosts=2", for readers.
func place(on string) string {
	network, hosts, _ := strings.Cut(on, ",hosts=")
	if network = "`" + network + "`"; hosts == "1" {
		return network
	}
	return network + ", " + hosts + " hosts"
}
