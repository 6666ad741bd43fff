package filtertest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/attack"
)

// script is a filter made of a script for nft(8) in each container: what the suite is tried with. Its flaw is what the
// suite has to find.
type script struct{ flaw string }

func (s script) Describe() filter.Description {
	return filter.Description{
		Description: part.Description{
			Name: "script", Summary: "a script for nft in each container", Implementation: "kernel", Params: filter.Params(),
		},
		Fragments: func(part.Params) filter.Fragments { return filter.Reassembled },
		Errors:    filter.Tracked, Extensions: filter.Follows,
		Steps: map[string]func() host.Step{"script": func() host.Step { return new(scriptStep) }},
	}
}

func (s script) Refuse(w filter.Where, p part.Params) string {
	if w.Point != network.InContainer {
		return "it stands inside containers only"
	}
	return ""
}

func (s script) Build(site filter.Site) ([]host.Step, error) {
	step := scriptStep{List: site.List, Flaw: s.flaw}
	for _, c := range site.Containers {
		step.NS = append(step.NS, c.Namespace)
	}
	return []host.Step{step}, nil
}

type scriptStep struct {
	NS   []string    `json:"ns"`
	List filter.List `json:"list"`
	Flaw string      `json:"flaw,omitempty"`
}

func (s scriptStep) Kind() string   { return "script" }
func (s scriptStep) String() string { return fmt.Sprintf("script of %d rules", len(s.List.Allowed)) }

func (s scriptStep) rule(r filter.Rule) string {
	ip, echo := "ip", "icmp type"
	if r.Sink.Is6() {
		ip, echo = "ip6", "icmpv6 type"
	}
	there, back := fmt.Sprintf("%s saddr %s %s daddr %s", ip, r.Source, ip, r.Sink),
		fmt.Sprintf("%s saddr %s %s daddr %s", ip, r.Sink, ip, r.Source)
	ports, own := fmt.Sprintf("%d-%d", r.First, r.Last), fmt.Sprintf("%d-%d", r.SourceFirst, r.SourceLast)
	sends, answers := own, own
	if s.Flaw == "any source port" {
		sends = "0-65535"
	}
	if s.Flaw == "answers to any port" {
		answers = "0-65535"
	}
	text := fmt.Sprintf("%s udp sport %s udp dport %s counter accept\n%s tcp sport %s tcp dport %s counter accept\n",
		there, sends, ports, there, sends, ports)
	text += fmt.Sprintf("%s %s echo-request counter accept\n%s %s echo-reply counter accept\n", there, echo, back, echo)
	if !s.List.Stateful {
		text += fmt.Sprintf("%s udp sport %s udp dport %s counter accept\n%s tcp sport %s tcp dport %s tcp flags & "+
			"(syn|ack) != syn counter accept\n", back, ports, answers, back, ports, answers)
	}
	if !s.List.Stateful && r.Sink.Is6() { // a container's input is filtered before it puts fragments of IPv6 together
		text += there + " frag frag-off != 0 counter accept\n" + back + " frag frag-off != 0 counter accept\n"
	}
	if s.Flaw == "any port" {
		text += there + " accept\n"
	}
	return text
}

func (s scriptStep) text() string {
	var b strings.Builder
	b.WriteString("table inet nettoll {\n chain rules {\n icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 " +
		"hoplimit 255 accept\n")
	if s.List.Stateful {
		b.WriteString("ct state established,related counter accept\n")
	}
	b.WriteString(map[string]string{
		"ipv6":       "meta nfproto ipv6 counter accept\n",
		"options":    "exthdr hbh exists counter accept\n",
		"errors":     "icmp type destination-unreachable counter accept\nicmpv6 type packet-too-big counter accept\n",
		"neighbours": "icmpv6 type nd-neighbor-solicit counter accept\n",
		"routers":    "icmpv6 type nd-router-advert counter accept\n",
		"some":       "meta l4proto udp numgen inc mod 2 == 0 drop\n",
	}[s.Flaw])
	for _, v6 := range []bool{false, true} {
		for r := range s.List.Rules(v6) {
			b.WriteString(s.rule(r))
		}
	}
	b.WriteString("}\n")
	for _, hook := range []string{"input", "output"} {
		fmt.Fprintf(&b, "chain %s { type filter hook %s priority 0; policy drop; jump rules; counter name refused; }\n", hook,
			hook)
	}
	b.WriteString("counter refused { }\n}\n")
	return b.String()
}

func nft(k *host.Kernel, ns, text string, args ...string) (out string, err error) {
	err = k.Do(ns, func() error {
		cmd := exec.Command("nft", args...)
		cmd.Stdin = strings.NewReader(text)
		b, err := cmd.CombinedOutput()
		if out = string(b); err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
	return out, err
}

func (s scriptStep) Remove(_ context.Context, k *host.Kernel) error {
	var errs []error
	for _, ns := range s.NS {
		if out, err := nft(k, ns, "", "list", "tables"); err == nil && strings.Contains(out, "nettoll") && s.Flaw != "stays" {
			_, err := nft(k, ns, "", "delete", "table", "inet", "nettoll")
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s scriptStep) Apply(ctx context.Context, k *host.Kernel) error {
	if out, err := nft(k, s.NS[0], "", "list", "tables"); err != nil || strings.Contains(out, "nettoll") {
		return errors.Join(errors.New("there is a table already"), err)
	}
	err := k.Load("rules", func() error {
		for _, ns := range s.NS {
			if _, err := nft(k, ns, s.text(), "-f", "-"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, s.Remove(ctx, k))
	}
	return nil
}

func bare(text string) string {
	return regexp.MustCompile(`packets \d+ bytes \d+`).ReplaceAllString(text, "")
}

func (s scriptStep) Verify(k *host.Kernel) error {
	if s.Flaw == "blind" {
		return nil
	}
	out, err := nft(k, s.NS[0], "", "list", "ruleset")
	if err != nil {
		return err
	}
	each := 4 // with answers
	if s.List.Stateful {
		each = 2
	}
	if got, want := strings.Count(out, "dport"),
		each*(len(s.List.Allowed)+s.List.Decoys*len(s.List.Families)); got != want {
		return &host.DriftError{Step: s.String(), Drifts: []linux.Difference{
			{What: "rules", Want: fmt.Sprint(want), Got: fmt.Sprint(got)},
		}}
	}
	return nil
}

func (s scriptStep) Listed() filter.List { return s.List }

func (s scriptStep) Tracks() bool { return s.List.Stateful }

func (s scriptStep) Lasting(_ *host.Kernel, tracked []conntrack.Flow) ([]string, string, error) {
	if s.Flaw == "knows no connection" {
		return nil, "", nil
	}
	return s.List.Lasting(tracked), "", nil
}

func (s scriptStep) UpdateRule(k *host.Kernel, r filter.Rule, allow bool) error {
	for _, ns := range s.NS {
		text := strings.ReplaceAll("add rule inet nettoll rules "+strings.TrimSpace(s.rule(r)), "\n",
			"\nadd rule inet nettoll rules ")
		if !allow {
			text = "delete table inet nettoll\n" + s.text()
		}
		if _, err := nft(k, ns, text, "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

func (s scriptStep) Counters(k *host.Kernel) (c filter.Counters, err error) {
	for _, ns := range s.NS {
		out, err := nft(k, ns, "", "list", "ruleset")
		if err != nil {
			return c, err
		}
		for line := range strings.Lines(out) {
			m := regexp.MustCompile(`packets (\d+)`).FindStringSubmatch(line)
			var n uint64
			if m == nil {
				continue
			}
			_, _ = fmt.Sscan(m[1], &n)
			if strings.Contains(line, "accept") {
				c.Allowed += n
			} else {
				c.Refused += n
			}
		}
	}
	return c, nil
}

func (s scriptStep) MeasureCost(ctx context.Context, k *host.Kernel) error {
	return filter.MeasureCost(ctx, k, s)
}

func subject(flaw string) Subject {
	return Subject{
		Filter: script{flaw},
		State: func(k *host.Kernel, ns string) (string, error) {
			out, err := nft(k, ns, "", "list", "ruleset")
			return bare(out), err
		},
		Tampers: []Tamper{{"flush the rules", func(k *host.Kernel, s filter.Site) error {
			_, err := nft(k, s.Containers[0].Namespace, "", "flush", "chain", "inet", "nettoll", "rules")
			return err
		}}},
	}
}

func TestConformance(t *testing.T) {
	testnet.Program(t, "nft", "nftables")
	Conformance(t, subject(""), []On{{Network: macvlan.Network{}}}, map[string]string{"stateful": "true"},
		map[string]string{"rules": "3"})
}

// TestHosts wants what is tried on hosts to reach them where there is no filter: else it would show nothing where there
// is one.
func TestHosts(t *testing.T) {
	s := subject("")
	params, err := s.Filter.Describe().Params.Resolve("filter script", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []network.Network{bridge.Network{}, routed.Network{}} {
		t.Run(n.Describe().Name, func(t *testing.T) {
			t.Parallel()
			c, err := newCase(s, On{Network: n}, params)
			if err != nil {
				t.Fatal(err)
			}
			stand, err := c.build(t, []string{"ipv4", "ipv6"})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := stand.Undo(); err != nil {
					t.Error(err)
				}
			}()
			if err := stand.Apply(t); err != nil {
				t.Fatal(err)
			}
			lab := stand.described(c, []string{"ipv4", "ipv6"}, false)
			list, err := c.held(t, stand, lab, attack.ToHosts, attack.FromHosts)
			if err != nil {
				t.Error(err)
			}
			tried := 0
			for _, h := range list {
				tried += h.Tried["ipv4"] + h.Tried["ipv6"]
			}
			if tried < 100 {
				t.Errorf("only %d packets are sent", tried)
			}
		})
	}
}

// TestFlaws wants the suite to find what is wrong with a filter.
func TestFlaws(t *testing.T) {
	testnet.Program(t, "nft", "nftables")
	packets := func(c *trial, t testing.TB) error { return c.packets(t, []string{"ipv4"}) }
	sockets := func(c *trial, t testing.TB) (err error) {
		s, err := c.raise(t, []string{"ipv4"})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Undo()) }()
		_, err = c.held(t, s, s.described(c, []string{"ipv4"}, true), attack.Sockets)
		return err
	}
	for _, c := range []struct {
		flaw  string
		check func(*trial, testing.TB) error
		want  []string // in what the suite says
	}{
		{"any port", packets, []string{
			"passes, and must not", `attack "ports", ipv4`, `attack "port-zero", ipv4`, `attack "options", ipv4`,
			`attack "wrapped", ipv4`, `attack "fragments", ipv4`,
		}},
		{"any source port", packets, []string{
			"a packet from a port that is none of the pair's (protocol 17, flags 0x0) from port 22 to port",
			"UDP and TCP that opens a connection from ports that are not the source's",
		}},
		{"answers to any port", packets, []string{
			"an answer to a port that is none of the pair's (protocol 6, flags 0x10) from port",
		}},
		{"ipv6", packets, []string{
			"udp ipv6 from src0#0 to", "which must not reach it", `attack "ports", ipv6`, `attack "port-zero", ipv6`, `attack "wrapped", ipv6`,
			`attack "fragments", ipv6`,
		}},
		{"options", packets, []string{"a datagram behind hop-by-hop options, 1 times, for", "from src0, arrives at snk1"}},
		{"errors", packets, []string{"an error about a flow that is none, ipv4 from"}},
		{"neighbours", packets, []string{"a neighbour's solicitation that was forwarded, ipv6 from"}},
		{"routers", packets, []string{"a router's advertisement, ipv6 from"}},
		{"some", sockets, []string{"does not pass"}},
		{"blind", func(c *trial, t testing.TB) error { return c.tampering(t) }, []string{"Verify does not see"}},
		{"stays", func(c *trial, t testing.TB) error { return c.undo(t) }, []string{"undone, it is not as it was"}},
		{"knows no connection", func(c *trial, t testing.TB) error { return c.lasting(t) }, []string{
			"a flow lasts without its rule, and an audit says",
		}},
	} {
		t.Run(c.flaw, func(t *testing.T) {
			t.Parallel()
			s := subject(c.flaw)
			given := map[string]string{"stateful": strconv.FormatBool(c.flaw == "knows no connection")}
			params, err := s.Filter.Describe().Params.Resolve("filter script", given)
			if err != nil {
				t.Fatal(err)
			}
			one, err := newCase(s, On{Network: macvlan.Network{}}, params)
			if err != nil {
				t.Fatal(err)
			}
			err = c.check(one, t)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("a filter with the flaw %q: %v, want %q", c.flaw, err, want)
				}
			}
		})
	}
}
