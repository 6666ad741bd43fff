package view_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
	"github.com/nettoll/nettoll/report/markdown"
	"github.com/nettoll/nettoll/report/text"
	"github.com/nettoll/nettoll/report/view"
)

var update = flag.Bool("update", false, "write the golden files")

// bridge has the changes of a bridge: a round trip takes 9 % longer, a stream carries 12 % less.
func bridge() map[string]float64 {
	return map[string]float64{
		"latency_p50": 1.09, "latency_mean": 1.1, "transaction_rate": 0.917, "cpu_per_packet": 1.16, "cpu_busy": 1.02,
		"goodput": 0.88, "service_demand": 1.2, "retransmits": 0.1,
	}
}

// usual is the default experiment with a third network.
func usual(t testing.TB) *made {
	loads := []load{udprr("same-host", 1), udprr("cross-host", 1), tcpstream("same-host")}
	m := start(t, loads, "host", "bridge", "routed")
	m.measure(loads, 5, 8, map[string]map[string]float64{"bridge": bridge()})
	m.prove(5, "before", "after")
	m.log.Facts = []measure.Fact{{Key: "congestion_control", Value: "cubic"}}
	return m
}

// Metrics beside the primary one: for unanswered datagrams loss, even if it is 0; for a rate the mean of latencies and
// CPU time by mode; and errors if there are any.
func TestTextBeside(t *testing.T) {
	loads := []load{
		{
			name: "quake3", id: "quake3(players=4)", placement: "same-host", pairs: 1, primary: "oneway_latency_p50",
			base: map[string]float64{
				"oneway_latency_p50": 52e-6, "goodput": 349e3, "loss": 0, "jitter": 180e-6, "cpu_user": 0.01,
			},
		},
		{
			name: "kv", id: "kv(payload=1024)", placement: "same-host", pairs: 1, primary: "transaction_rate",
			base: map[string]float64{
				"transaction_rate": 139e3, "loss": 0, "errors": 0, "latency_mean": 342e-6, "cpu_user": 0.127, "cpu_system": 1.13,
				"cpu_per_transaction": 8.8e-6,
			},
		},
		{
			name: "dns", id: "dns(transport=udp)", placement: "same-host", pairs: 1, primary: "latency_p50",
			base: map[string]float64{"latency_p50": 62e-6, "latency_mean": 85e-6, "errors": 0.01, "cpu_user": 0.021},
		},
	}
	m := start(t, loads, "host", "bridge")
	m.measure(loads, 5, 8, nil)
	var said strings.Builder
	if err := text.Write(&said, m.data(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	groups := strings.Split(said.String(), "same host · 1 pair")
	if len(groups) != 4 {
		t.Fatalf("%d groups:\n%s", len(groups)-1, &said)
	}
	for i, want := range []struct{ said, unsaid []string }{
		{[]string{"loss", "jitter", "goodput"}, []string{"CPU user"}},
		{[]string{"latency mean", "CPU user", "CPU system", "CPU per transaction"}, []string{"loss", "errors"}},
		{[]string{"errors"}, []string{"latency mean", "CPU user"}},
	} {
		for _, word := range want.said {
			if !strings.Contains(groups[i+1], word) {
				t.Errorf("group %s has no %q", loads[i].name, word)
			}
		}
		for _, word := range want.unsaid {
			if strings.Contains(groups[i+1], word) {
				t.Errorf("group %s has %q", loads[i].name, word)
			}
		}
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct {
		name    string
		make    func(*testing.T) *made
		options report.Options
	}{
		{"usual", func(t *testing.T) *made { return usual(t) }, report.Options{}},
		{"all", func(t *testing.T) *made {
			loads := []load{udprr("same-host", 1)}
			m := start(t, loads, "host", "bridge")
			m.measure(loads, 5, 8, map[string]map[string]float64{"bridge": bridge()})
			return m
		}, report.Options{All: true}},
		{"color", func(t *testing.T) *made {
			loads := []load{tcpstream("same-host")}
			m := start(t, loads, "host", "bridge", "macvlan", "routed")
			m.measure(loads, 5, 8, map[string]map[string]float64{"bridge": bridge(), "macvlan": {"goodput": 1.2}})
			return m
		}, report.Options{Color: true}},
		{"narrow", func(t *testing.T) *made { return usual(t) }, report.Options{Width: 64}},
		{"strip", func(t *testing.T) *made { return usual(t) }, report.Options{Width: 32}},
		{"failed", func(t *testing.T) *made {
			loads := []load{udprr("same-host", 1), tcpstream("same-host")}
			m := start(t, loads, "host", "bridge", "macvlan")
			m.measure(loads, 5, 8, map[string]map[string]float64{"bridge": bridge()})
			for i := range m.log.Trials {
				switch x := &m.log.Trials[i]; {
				case strings.HasPrefix(x.Cell, "macvlan") && strings.Contains(x.Cell, "udp-rr"),
					x.Cell == "host/same-host/1/tcp-stream(message=131072)":
					x.Metrics, x.Failed = nil, `no answer within 2 s: worker "sink@host1" died: signal: killed`
				case strings.HasPrefix(x.Cell, "bridge") && i%11 == 0:
					x.Warnings = []string{"the delivery rate did not become steady"}
				}
			}
			m.prove(5, "before", "after")
			last := &m.log.Proofs[len(m.log.Proofs)-1]
			last.OK, last.Detail = false, "pair 0: no answer from 10.1.1.1:40000 to 3 datagrams of 1472 bytes\x1b[31m"
			m.log.Warnings = []measure.Warning{
				{Text: "the hypervisor took away 3.1 % of a core while it was measured"},
				{
					Lab:  "bridge/same-host/1",
					Text: "after the last block the kernel differs from the plan: link \"eth0\" is down, want up",
				},
			}
			return m
		}, report.Options{}},
		{"interrupted", func(t *testing.T) *made {
			loads := []load{udprr("same-host", 1)}
			m := start(t, loads, "host", "bridge")
			m.measure(loads, 1, 3, map[string]map[string]float64{"bridge": bridge()})
			m.prove(1, "before")
			m.log.Generations, m.log.End = nil, &measure.End{Why: measure.EndInterrupted, Detail: "it was interrupted"}
			return m
		}, report.Options{}},
		{"nothing", func(t *testing.T) *made {
			return start(t, []load{udprr("same-host", 1)}, "host", "bridge")
		}, report.Options{}},
		{"loss", func(t *testing.T) *made {
			loads := []load{udprate("28"), udprate("1024")}
			m := start(t, loads, "host", "bridge", "bridge+vxlan")
			m.measure(loads, 5, 8, map[string]map[string]float64{
				"bridge": {"loss": 0.0002}, "bridge+vxlan": {"packet_rate": 0.7, "loss": 0.013},
			})
			m.prove(5, "before", "after")
			return m
		}, report.Options{}},
		{"lossfirst", func(t *testing.T) *made { // loss as the primary metric
			loads := []load{udprate("28")}
			loads[0].primary = "loss"
			m := start(t, loads, "host", "bridge", "bridge+vxlan")
			m.measure(loads, 5, 8, map[string]map[string]float64{"bridge+vxlan": {"packet_rate": 0.7, "loss": 0.013}})
			return m
		}, report.Options{}},
		{"twin", func(t *testing.T) *made {
			loads := []load{udprr("same-host", 1)}
			m := start(t, loads, "host")
			m.measure(loads, 5, 8, nil)
			m.prove(5, "before", "after")
			return m
		}, report.Options{}},
		{"tenpairs", func(t *testing.T) *made {
			loads := []load{udprr("same-host", 1), udprr("same-host", 10)}
			m := start(t, loads, "host", "bridge")
			m.measure(loads, 5, 8, map[string]map[string]float64{"bridge": bridge()})
			m.prove(4, "before", "after")
			m.prove(5, "before")
			return m
		}, report.Options{}},
		{"factor", func(t *testing.T) *made { // far from the baseline, both ways
			loads := []load{udprr("cross-host", 1), tcpstream("cross-host")}
			m := start(t, loads, "host", "bridge+openvpn", "passthrough")
			m.measure(loads, 5, 8, map[string]map[string]float64{
				"bridge+openvpn": {"latency_p50": 7.3, "transaction_rate": 0.13, "goodput": 0.031, "service_demand": 22},
				"passthrough":    {"latency_p50": 0.31, "transaction_rate": 3.3, "goodput": 1.04, "service_demand": 0.9},
			})
			return m
		}, report.Options{}},
		{"longnames", func(t *testing.T) *made {
			loads := []load{udprr("cross-host", 1)}
			a, b := "bridge+nftables(rules=1000,position=last)+vxlan(checksum=inner)+wireguard(mtu=1420)",
				"routed+iptables(rules=1000)+ipip"
			m := start(t, loads, "host", a, b, "bridge")
			m.measure(loads, 5, 8, map[string]map[string]float64{
				a: {"latency_p50": 2.4}, b: {"latency_p50": 1.3}, "bridge": bridge(),
			})
			return m
		}, report.Options{Width: 80}},
		{"many", func(t *testing.T) *made { // more comparisons than sentences
			loads := []load{
				udprr("same-host", 1), udprr("same-host", 10), udprr("cross-host", 1), tcpstream("same-host"),
				tcpstream("cross-host"),
			}
			m := start(t, loads, "host", "bridge", "routed", "macvlan")
			m.measure(loads, 5, 8, map[string]map[string]float64{"bridge": bridge(), "macvlan": {"goodput": 1.1}})
			return m
		}, report.Options{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := tt.make(t)
			var b bytes.Buffer
			if err := text.Write(&b, m.data(), tt.options); err != nil {
				t.Fatal(err)
			}
			golden(t, tt.name+".golden", b.String())
			tidy(t, b.String(), tt.options)
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (rewrite it with -update):\n%s", file, d)
	}
}

// tidy checks the rules that hold for every report.
func tidy(t *testing.T, text string, o report.Options) {
	t.Helper()
	bare := regexp.MustCompile(`\x1b\[\d+m`).ReplaceAllString(text, "")
	if !o.Color && bare != text || strings.Contains(bare, "\x1b") {
		t.Error("an escape sequence that was not asked for")
	}
	if !utf8.ValidString(text) || !strings.HasSuffix(text, "\n") || strings.Contains(text, "\n\n\n") {
		t.Error("not UTF-8, no newline at the end, or two blank lines")
	}
	width := o.Width
	if width == 0 {
		width = 100
	}
	for line := range strings.Lines(bare) {
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimRight(line, " ") != line {
			t.Errorf("ends in a space: %q", line)
		}
		// a single word, or a number with its unit, may exceed the width
		if n := utf8.RuneCountInString(line); n > width && len(strings.Fields(line)) > 3 {
			t.Errorf("%d columns, want %d: %q", n, width, line)
		}
		if regexp.MustCompile(`NaN|Inf|%!`).MatchString(line) {
			t.Errorf("not for people: %q", line)
		}
	}
}

// The conditions of a run stand below the tables, including the load of the machine and the versions of other programs.
func TestCircumstances(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	m := start(t, loads, "host", "bridge")
	m.measure(loads, 5, 8, nil)
	m.run.Versions["iperf3"], m.run.Versions["binary"] = "3.12", "sha256:0"
	m.log.Facts = append(m.log.Facts, measure.Fact{Key: "load", Value: 1.5})
	said := report.Read(m.run, m.analysis(), nil).Circumstances()
	for _, want := range []string{"Linux 6.12.9", " · load 1.5 · ", " · nettoll v0.1.0 · iperf3 3.12 · "} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
	if strings.Contains(said, "sha256") {
		t.Errorf("%q has the sum of the program", said)
	}
}

// If hosts are on several machines, views show each fact once, and again for each machine on which it differs.
func TestSeveralMachines(t *testing.T) {
	loads := []load{udprr("cross-host", 1)}
	m := start(t, loads, "host", "bridge")
	m.measure(loads, 5, 8, nil)
	m.run.Facts["hosts"] = []string{"host1"}
	m.run.Machines = []measure.MachineFacts{{Machine: "node\x1b2", Hosts: []string{"host2", "host3"}, Facts: map[string]any{
		"kernel": "6.18.1", "cpus": 2, "numa_nodes": 4,
	}}}
	if said, want := report.Read(m.run, m.analysis(), nil).Circumstances(),
		"Linux 6.12.9 (node\ufffd2: 6.18.1) · Example 9000, 2 CPUs · "; !strings.Contains(said, want) {
		t.Errorf("no %q in %q", want, said)
	}
	var b, lines bytes.Buffer
	if err := markdown.Write(&b, m.data(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| kernel | 6.12.9 |\n| kernel of node\ufffd2 | 6.18.1 |", "| numa nodes | – |\n| numa nodes of node\ufffd2 | 4 |",
		"| hosts | host1 |", "| hosts of node\ufffd2 | host2, host3 |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "CPUs of node") {
		t.Error("a fact that is the same is shown twice")
	}
	if err := export.JSONL(&lines, m.data()); err != nil {
		t.Fatal(err)
	}
	if want := `"machines":[{"machine":"node\u001b2","hosts":["host2","host3"],"facts":{`; !strings.Contains(lines.String(), want) {
		t.Errorf("no %s in %s", want, strings.SplitN(lines.String(), "\n", 2)[0])
	}
}

// The page has the percentiles of each stack side by side.
func TestPercentiles(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	m := start(t, loads, "host", "bridge")
	m.measure(loads, 5, 8, nil)
	var page strings.Builder
	if err := view.Write(&page, "markdown", m.data(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	if want := "| stack | p50 | p90 | p99 |"; !strings.Contains(page.String(), want) {
		t.Errorf("no %q in\n%s", want, page.String())
	}
}

// The line about the machine has the share of the CPU time that was idle, if it was recorded.
func TestIdleTime(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	m := start(t, loads, "host", "bridge")
	m.measure(loads, 5, 4, nil)
	m.log.Facts = append(m.log.Facts, measure.Fact{Key: "load", Value: 0.4})
	for want, cpu := range map[string]map[string]float64{
		"load 0.4 · 62 % of CPU time idle · affinity": {"user": 0.5, "system": 0.26, "idle": 1.24},
		"load 0.4 · affinity":                         nil,
	} {
		m.log.Blocks = []measure.BlockFacts{{Duration: 1, CPU: cpu}}
		for _, format := range []string{"text", "markdown", "html"} {
			var b strings.Builder
			if err := view.Write(&b, format, m.data(), report.Options{}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) {
				t.Errorf("%s has no %q:\n%s", format, want, b.String()[:min(b.Len(), 3000)])
			}
		}
	}
}

// If other programs used the CPUs, no view names a difference that they may have made, and each says why.
func TestBusyMachine(t *testing.T) {
	loads := []load{udprr("same-host", 1), tcpstream("same-host")}
	m := start(t, loads, "host", "bridge", "routed")
	m.measure(loads, 6, 6, map[string]map[string]float64{"bridge": bridge()})
	quiet := m.data()
	m.log.Blocks = []measure.BlockFacts{{Duration: 1, Others: 0.7}}
	busy := m.data()
	for _, format := range []string{"text", "markdown", "html"} {
		say := func(d *report.Data) string {
			var b strings.Builder
			if err := view.Write(&b, format, d, report.Options{}); err != nil {
				t.Fatal(err)
			}
			return strings.Join(strings.Fields(b.String()), " ")
		}
		const slower = "bridge: slower"
		const why = "Other programs may have moved it by −35 to +54 %, more than the margin of ±5 %"
		if text := say(quiet); strings.Contains(text, why) || strings.Contains(text, "oo noisy to tell: none of") {
			t.Errorf("%s of an idle machine:\n%s", format, text)
		}
		text := say(busy)
		if strings.Contains(text, slower) || !strings.Contains(text, "oo noisy to tell: none of 4 comparisons is decided") ||
			!strings.Contains(text, why) {
			t.Errorf("%s of a busy machine:\n%s", format, text[:min(len(text), 3000)])
		}
	}
}
