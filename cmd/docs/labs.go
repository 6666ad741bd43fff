package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// labOf is the result of a lab of a network whose containers a runtime makes, as go test -v prints it.
type labOf struct {
	network, runtime string
	result           string // "PASS", "SKIP", "FAIL"
	where            string // the kernel
}

// labs reads the output of TestNetworksOfRuntimes.
func labs(r io.Reader, where string) ([]labOf, error) {
	line := regexp.MustCompile(`(PASS|SKIP|FAIL): TestNetworksOfRuntimes/(\S+)@(\S+)`)
	var list []labOf
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if m := line.FindStringSubmatch(in.Text()); m != nil {
			list = append(list, labOf{m[2], m[3], m[1], where})
		}
	}
	return list, in.Err()
}

// runtimesTitle begins the section on runtimes.
const runtimesTitle = "\n## Runtimes"

// labsDocument returns the section of docs/parts.md on runtimes.
func labsDocument(list []labOf, of origin) string {
	var b strings.Builder
	b.WriteString(runtimesTitle + `

Each runtime makes the containers of each network, and each runtime that can build networks does (cmd/nettoll,
TestNetworksOfRuntimes). ✓ means that the kernel has what was planned, packets of the full MTU pass both ways
unfragmented, they went to the neighbours in the plan, and every device on their way counted them. – means not possible,
or that this kernel lacks what it needs. All runtimes pass a conformance suite of their own (runtime/runtimetest):
namespaces, rights, limits, calls, deaths, and what they leave behind. The suites above have the containers of the runtime ` + "`netns`" + `.
The table is of ` + of.String() + `.

`)
	var runtimes []string
	type row struct{ network, where string }
	var rows []row
	marks := map[row]map[string]string{}
	for _, l := range list {
		if !slices.Contains(runtimes, l.runtime) {
			runtimes = append(runtimes, l.runtime)
		}
		r := row{l.network, l.where}
		if l.result == "SKIP" {
			continue
		}
		if marks[r] == nil {
			rows, marks[r] = append(rows, r), map[string]string{}
		}
		marks[r][l.runtime] = map[string]string{"PASS": passed, "FAIL": failed}[l.result]
	}
	fmt.Fprintf(&b, "| network | `%s` | kernel |\n|%s\n", strings.Join(runtimes, "` | `"),
		strings.Repeat(" --- |", len(runtimes)+2))
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` |%s %s |\n", r.network, cells(marks[r], runtimes), r.where)
	}
	return b.String()
}
