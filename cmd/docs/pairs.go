package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// pair is the result of a tunnel on an encryption under a network, one row of the table that TestBetween prints.
type pair struct {
	stack, network, outer string // outer is "ipv4 on ipv6"
	mtu, result           string
	where                 string // the kernel
}

// pairs reads the output of make test-between.
func pairs(r io.Reader, where string) ([]pair, error) {
	line := regexp.MustCompile(`(\S+\+\S+)/(\w+), (ipv[46] on (?:ipv[46]|ethernet)) \| MTU (\d+) \| (\w+)`)
	outer := regexp.MustCompile(`\(?,?outer=\w+`)
	var list []pair
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		m := line.FindStringSubmatch(in.Text())
		if m == nil {
			continue
		}
		stack := m[1]
		for _, cut := range outer.FindAllString(stack, -1) {
			if strings.HasPrefix(cut, "(") {
				cut += ")" // it is the only parameter
			}
			stack = strings.Replace(stack, cut, "", 1)
		}
		list = append(list, pair{stack, m[2], m[3], m[4], m[5], where})
	}
	return list, in.Err()
}

// pairsTitle begins the section on pairs.
const pairsTitle = "\n## Tunnels on encryptions"

// pairNetworks are the columns of the table of pairs, in its order.
func pairNetworks() []string { return []string{"bridge", "routed", "ebpf"} }

// older reads the rows of a section on pairs that are of other kernels than a list: those take hours, and stay.
func older(section string, list []pair) (kept []pair) {
	line := regexp.MustCompile("(?m)^\\| `(.+)` \\| (.+) \\| (\\d+) \\| (.) \\| (.) \\| (.) \\| (.+) \\|$")
	for _, m := range line.FindAllStringSubmatch(section, -1) {
		if slices.ContainsFunc(list, func(p pair) bool { return p.where == m[7] }) {
			continue
		}
		for i, network := range pairNetworks() {
			if result := map[string]string{passed: "passed", failed: "failed"}[m[4+i]]; result != "" {
				kept = append(kept, pair{m[1], network, m[2], m[3], result, m[7]})
			}
		}
	}
	return kept
}

// pairsDocument returns the section of docs/parts.md on pairs. Of kernels that are not in the list it has the rows of
// the old section.
func pairsDocument(list []pair, of origin, old string) string {
	list = append(slices.Clone(list), older(old, list)...)
	var b strings.Builder
	b.WriteString(pairsTitle + `

Each tunnel stands on each encryption, between two hosts (network/carriertest, ` + "`make test-between`" + `, and
` + "`make test-guest-between`" + ` for what needs a kernel with modules). *MTU* is that of containers on an underlay of
1500 bytes. ✓ means that all of the following holds under the network; – means not tried.
The table is of ` + of.String() + `. Rows of a guest are of the last
` + "`make test-guest-between`" + `, which takes hours.

- Echoes, datagrams of 28 bytes, of the full MTU and of 65,507 bytes, and a stream pass in both families and both
  directions. One byte more than the MTU is refused, or cut if it may be.
- On the underlay, frames are as long as all overheads say, and nothing in any frame can be read.
- Packets went to the neighbours in the plan, and every device counted them.
- A route around, and a device without encryption in the encryption's place, are noticed. Hosts with different keys
  exchange nothing (tried under ` + "`bridge`" + `, with equal families). Afterwards nothing is left.

| tunnel on encryption | outer packets | MTU | bridge | routed | ebpf | kernel |
| --- | --- | ---: | --- | --- | --- | --- |
`)
	type row struct{ stack, outer, mtu, where string }
	var rows []row
	marks := map[row]map[string]string{}
	for _, p := range list {
		r := row{p.stack, p.outer, p.mtu, p.where}
		if p.result != "passed" && p.result != "failed" {
			continue
		}
		if marks[r] == nil {
			rows, marks[r] = append(rows, r), map[string]string{}
		}
		marks[r][p.network] = map[string]string{"passed": passed, "failed": failed}[p.result]
	}
	slices.SortStableFunc(rows, func(x, y row) int {
		return strings.Compare(x.where+x.stack+x.outer, y.where+y.stack+y.outer)
	})
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s |%s %s |\n", r.stack, r.outer, r.mtu,
			cells(marks[r], pairNetworks()), r.where)
	}
	return b.String()
}
