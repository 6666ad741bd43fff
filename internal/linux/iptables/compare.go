package iptables

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
)

const (
	none = "none"
)

// Parse reads the output of iptables-save(8) for the table "filter". It ignores other tables, and returns an empty
// table if there is none. Rules are as [normal] writes them.
func Parse(r io.Reader) (Table, error) { return parse(r, name) }

// parse is Parse for any table.
func parse(r io.Reader, table string) (Table, error) {
	var t Table
	places := map[string]int{}
	inside := false
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '*':
			inside = line == "*"+table
		case line == "COMMIT":
			inside = false
		case !inside:
		case line[0] == ':':
			f := strings.Fields(line[1:])
			if len(f) < 2 {
				return Table{}, fmt.Errorf("line %d, %q: no chain with a policy", n, line)
			}
			c := Chain{Name: f[0], Policy: f[1]}
			if c.Policy == "-" {
				c.Policy = ""
			}
			if _, twice := places[c.Name]; twice {
				return Table{}, fmt.Errorf("line %d, %q: a second chain of that name", n, line)
			}
			places[c.Name] = len(t.Chains)
			t.Chains = append(t.Chains, c)
		default:
			rest, ok := strings.CutPrefix(line, "-A ")
			chain, spec, _ := strings.Cut(rest, " ")
			at, known := places[chain]
			if !ok || !known {
				return Table{}, fmt.Errorf("line %d, %q: no rule of a chain that was named", n, line)
			}
			t.Chains[at].Rules = append(t.Chains[at].Rules, normal(spec))
		}
	}
	return t, s.Err()
}

// normal returns a rule in a canonical form: without the matches that a protocol implies, with names of protocols, with
// the shortest form of addresses, and with sorted states. Versions and variants differ in these.
func normal(rule string) string {
	f := strings.Fields(rule)
	out := f[:0]
	for i := 0; i < len(f); i++ {
		if i+1 == len(f) {
			out = append(out, f[i])
			break
		}
		word, value := f[i], f[i+1]
		switch word {
		case "-m":
			if slices.Contains([]string{"udp", "tcp", "icmp", "icmp6", "icmpv6"}, value) {
				i++
				continue
			}
		case "-p":
			switch value {
			case "17":
				value = "udp"
			case "6":
				value = "tcp"
			case "1":
				value = "icmp"
			case "58", "icmpv6":
				value = "ipv6-icmp"
			}
		case "-s", "-d":
			if p, err := netip.ParsePrefix(value); err == nil && p.IsSingleIP() {
				value = p.Addr().String()
			}
		case "--ctstate":
			states := strings.Split(value, ",")
			slices.Sort(states)
			value = strings.Join(states, ",")
		default:
			out = append(out, word)
			continue
		}
		out = append(out, word, value)
		i++
	}
	return strings.Join(out, " ")
}

// compare returns the differences between two tables; for each chain, only the first different rule.
func compare(want, got Table) []linux.Difference {
	var list []linux.Difference
	rest := map[string]Chain{}
	for _, c := range got.Chains {
		rest[c.Name] = c
	}
	for _, c := range want.Chains {
		there, ok := rest[c.Name]
		delete(rest, c.Name)
		if !ok {
			list = append(list, linux.Difference{What: "chain " + c.Name, Want: linux.Present, Got: linux.Absent})
			continue
		}
		list = append(list, c.compare(there)...)
	}
	for _, c := range got.Chains {
		if _, left := rest[c.Name]; !left {
			continue
		}
		if c.Policy == "" {
			list = append(list, linux.Difference{What: "chain " + c.Name, Want: linux.Absent, Got: linux.Present})
			continue
		}
		list = append(list, Chain{Name: c.Name, Policy: "ACCEPT"}.compare(c)...)
	}
	return list
}

func (c Chain) compare(got Chain) []linux.Difference {
	var list []linux.Difference
	if c.Policy != got.Policy {
		list = append(list, linux.Difference{What: "policy of chain " + c.Name, Want: c.Policy, Got: got.Policy})
	}
	for i := range max(len(c.Rules), len(got.Rules)) {
		w, g := none, none
		if i < len(c.Rules) {
			w = normal(c.Rules[i])
		}
		if i < len(got.Rules) {
			g = got.Rules[i]
		}
		if w != g {
			list = append(list, linux.Difference{What: fmt.Sprintf("rule %d of chain %s", i+1, c.Name), Want: w, Got: g})
			break
		}
	}
	if len(c.Rules) != len(got.Rules) {
		list = append(list, linux.Difference{
			What: "rules of chain " + c.Name, Want: strconv.Itoa(len(c.Rules)), Got: strconv.Itoa(len(got.Rules)),
		})
	}
	return list
}

// Counters are the packets that a hook has accepted and dropped.
type Counters struct{ Allowed, Refused uint64 }

// ParseCounters reads the output of "iptables -S HOOK -v" for a hook of an [Allowlist]. Allowed are packets of known
// connections, and packets that were checked and not dropped in the end.
func ParseCounters(r io.Reader, hook string) (Counters, error) {
	var passed, asked, dropped uint64
	found := 0
	s := bufio.NewScanner(r)
	for s.Scan() {
		f := strings.Fields(s.Text())
		c := slices.Index(f, "-c")
		if len(f) < 2 || f[0] != "-A" || f[1] != hook || c < 0 || c+1 >= len(f) {
			continue
		}
		packets, err := strconv.ParseUint(f[c+1], 10, 64)
		if err != nil {
			return Counters{}, fmt.Errorf("counters of chain %s: %q: %w", hook, s.Text(), err)
		}
		rule := normal(strings.Join(slices.Delete(f, c, min(c+3, len(f)))[2:], " "))
		switch rule {
		case normal(known):
			passed = packets
		case "-j " + OwnChain(hook):
			asked = packets
			found++
		case refused:
			dropped = packets
			found++
		}
	}
	if err := s.Err(); err != nil {
		return Counters{}, fmt.Errorf("counters of chain %s: %w", hook, err)
	}
	if found != 2 {
		return Counters{}, fmt.Errorf("counters of chain %s: its rules are not there", hook)
	}
	return Counters{Allowed: passed + asked - min(asked, dropped), Refused: dropped}, nil
}
