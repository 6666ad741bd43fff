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
		if o.part != "" {
			list = append(list, o)
		}
	}
	return list, in.Err()
}

// column is a column of a table: the checks that must all have passed for its mark.
type column struct {
	title  string
	checks []string
}

func networkColumns() []column {
	return []column{
		{"one host", []string{"packets, 1 hosts, 1 pairs", "packets, 1 hosts, 3 pairs"}},
		{"two hosts", []string{"packets, 2 hosts, 1 pairs", "packets, 2 hosts, 3 pairs"}},
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
		return "", errors.New("no test of a conformance suite is in what was given (hint: go test -v -run TestConformance ./network/... ./filter/...)")
	}
	var b strings.Builder
	b.WriteString(`# Parts and what is shown of them

Written by ` + "`make parts`" + ` from what the conformance suites said: every network and every filter runs the same one (network/networktest, filter/filtertest), with real packets
of both families between namespaces. ✓ it holds; – it does not apply, or this kernel cannot.

`)
	table := func(head []string, columns []column, of func(outcome) ([]string, bool)) {
		for _, c := range columns {
			head = append(head, c.title)
		}
		b.WriteString("| " + strings.Join(append(head, "kernel"), " | ") + " |\n|" + strings.Repeat(" --- |", len(head)+1) + "\n")
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
	b.WriteString("## Networks\n\nA pair exchanges echoes, datagrams of 28 bytes, of the full MTU and of 65,507 bytes, and a stream.\n\n")
	table([]string{"network", "family"}, networkColumns(), func(o outcome) ([]string, bool) {
		return []string{"`" + o.part + "`"}, o.on == "" && slices.ContainsFunc(networkColumns(), func(c column) bool { return slices.Contains(c.checks, o.check) }) && !strings.Contains(o.check, "ipv")
	})
	b.WriteString(`
## Filters

The allowed pair passes echoes, datagrams of 28 bytes, of the full MTU and of 65,507 bytes, and a stream, in its direction; every other container, port, protocol and direction is refused, and
fragments without the first of their packet are treated as the filter says. With one family listed the other is refused.

`)
	table([]string{"filter", "on network", "family"}, filterColumns(), func(o outcome) ([]string, bool) {
		return []string{"`" + o.part + "`", "`" + strings.TrimSuffix(o.on, ",hosts=1") + "`"}, o.on != ""
	})
	return b.String(), nil
}
