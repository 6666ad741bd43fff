package measure_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
)

// matrices are those of a lab with a filter at two times: the first is sound, and in the second something leaks.
func matrices() []measure.Matrix {
	of := func(when, row string, leaks ...string) measure.Matrix {
		return measure.Matrix{
			Lab: "bridge+nftables", When: when, Filtered: true, From: []string{"src0", "snk0"},
			To: []string{"src0", "snk0", "host1"}, Cells: map[string][]string{"ipv4": {row, "a-r"}},
			Tried: map[string]int{"ipv4": 40}, Of: map[string]int{"ipv4": 40, "ipv6": 10}, Leaks: leaks, LeaksAll: 2 * len(leaks),
		}
	}
	return []measure.Matrix{of("before", "-ar"), of("after", "-aL", "it arrives at host1")}
}

// A leak, and what is on the list and does not arrive, are claims that did not hold. Without a filter, and of what was
// not tried, nothing is claimed.
func TestMatrixProofs(t *testing.T) {
	m := matrices()[1]
	p := m.Proofs()
	if len(p) != 2 || p[0].OK || !p[1].OK || p[0].Name != measure.MatrixLeaks || p[0].When != "after" ||
		p[0].Detail != "it arrives at host1 (and 1 more)" {
		t.Errorf("%+v", p)
	}
	m.Missing, m.MissingAll = []string{"it does not arrive"}, 1
	if p := m.Proofs(); p[1].OK || p[1].Detail != "it does not arrive" {
		t.Errorf("missing: %+v", p[1])
	}
	m.NotTried = "why"
	if p := m.Proofs(); p != nil {
		t.Errorf("not tried: %+v", p)
	}
	m.NotTried, m.Filtered = "", false
	if p := m.Proofs(); p != nil {
		t.Errorf("without a filter: %+v", p)
	}
}

// What the rights of containers refused is no evidence of a claim, and a claim says so. It is less remarkable than what
// came of what was sent. Of all times it is summed up.
func TestUnsent(t *testing.T) {
	m := matrices()[0]
	if text := m.Confined(); text != "" {
		t.Errorf("nothing was refused: %q", text)
	}
	m.Unsent, m.UnsentKinds = map[string]int{"ipv4": 30}, []string{"ICMP echo", "TCP ACK"}
	m.Cells = map[string][]string{"ipv4": {"-ax", "a-r"}}
	for _, p := range m.Proofs() {
		if p.Tried["ipv4"] != 10 || p.Seen["ipv4"] != 10 ||
			!strings.HasSuffix(p.Claim, " (not sent, for lack of rights: ICMP echo, TCP ACK)") {
			t.Errorf("%+v", p)
		}
	}
	other := m
	other.Untried = []string{"hosts (nobody hears there)", "port 0 (nobody listens there)"}
	for _, p := range other.Proofs() {
		if want := " (not tried: hosts, port 0)"; !strings.HasSuffix(p.Claim, want) {
			t.Errorf("%q, want %q at its end", p.Claim, want)
		}
	}
	other.UnsentKinds = []string{"TCP ACK", "TCP SYN"}
	other.Cells = map[string][]string{"ipv4": {"-ac", "a-x"}}
	a := measure.Analyze(measure.Run{}, &measure.Log{Matrices: []measure.Matrix{m, other}})
	p := a.Proved()[0]
	const want = "rights of the containers refused to send 60 packets: ICMP echo, TCP ACK, TCP SYN"
	if text := p.Confined(); text != want || p.Tried != 80 {
		t.Errorf("%q, and %d tries; want %q, and 80", text, p.Tried, want)
	}
	if diff := cmp.Diff(other.Untried, p.NotTried); diff != "" {
		t.Errorf("what was not tried (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"-ac", "a-r"}, p.Reached.Cells["ipv4"]); diff != "" {
		t.Errorf("who reached whom (-want +got):\n%s", diff)
	}
}

// What is said of a lab is the worst of all times. Older records have no matrix, and nothing is said.
func TestProved(t *testing.T) {
	log := measure.Log{Matrices: append(matrices(), measure.Matrix{Lab: "host", NotTried: "they share a namespace"})}
	for _, m := range log.Matrices {
		log.Proofs = append(log.Proofs, m.Proofs()...)
	}
	log.Proofs = append(log.Proofs, measure.Proof{Lab: "host", Name: "passes", OK: true},
		measure.Proof{Lab: "host", Name: "path", OK: false})
	a := measure.Analyze(measure.Run{}, &log)
	want := []measure.ProvedLab{
		{
			Lab: "bridge+nftables", Filtered: true, Allowed: measure.HeldAlways, Refused: measure.HeldNot,
			Others: measure.NotProved, Broken: []string{measure.MatrixLeaks}, Tried: 80, Of: 100,
			Reached: &measure.Matrix{
				Lab: "bridge+nftables", Filtered: true, From: []string{"src0", "snk0"}, To: []string{"src0", "snk0", "host1"},
				Cells: map[string][]string{"ipv4": {"-aL", "a-r"}}, Leaks: []string{"it arrives at host1"},
			},
		},
		{
			Lab: "host", Allowed: measure.HeldAlways, Refused: measure.NotClaimed, Others: measure.HeldNot,
			Broken: []string{"path"}, NotTried: []string{"they share a namespace"},
		},
	}
	if diff := cmp.Diff(want, a.Proved()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	log.Matrices = nil
	a = measure.Analyze(measure.Run{}, &log)
	if got := a.Proved(); got != nil {
		t.Errorf("older records: %+v", got)
	}
}

// Of what cannot be told nothing is held, and what is broken stays broken. The reason is said once.
func TestUntoldProofs(t *testing.T) {
	told := measure.Matrix{Lab: "l", Filtered: true, Tried: map[string]int{"ipv4": 9}, When: "before"}
	unsent := told
	unsent.Untold, unsent.Unknown, unsent.UntoldClaims = "not sent", map[string]int{"ipv4": 2}, []string{measure.MatrixLeaks}
	older := told
	older.Untold = "not sent"
	leak := unsent
	leak.Leaks, leak.LeaksAll = []string{"it arrives"}, 1
	for _, tt := range []struct {
		name             string
		list             []measure.Matrix
		allowed, refused measure.Held
		unknown          []string
	}{
		{"all told", []measure.Matrix{told, told}, measure.HeldAlways, measure.HeldAlways, nil},
		{"once not", []measure.Matrix{told, unsent, told}, measure.HeldAlways, measure.HeldUntold, []string{"not sent"}},
		{"a record of both", []measure.Matrix{older}, measure.HeldUntold, measure.HeldUntold, []string{"not sent"}},
		{"a leak", []measure.Matrix{unsent, leak, unsent}, measure.HeldAlways, measure.HeldNot, []string{"not sent"}},
	} {
		log := measure.Log{Matrices: tt.list}
		for _, m := range tt.list {
			log.Proofs = append(log.Proofs, m.Proofs()...)
		}
		a := measure.Analyze(measure.Run{}, &log)
		p := a.Proved()[0]
		if diff := cmp.Diff(tt.unknown, p.Unknown); p.Allowed != tt.allowed || p.Refused != tt.refused || diff != "" {
			t.Errorf("%s: allowed %q, refused %q, want %q and %q; why (-want +got):\n%s", tt.name, p.Allowed, p.Refused,
				tt.allowed, tt.refused, diff)
		}
	}
	if p := unsent.Proofs()[0]; p.Tried["ipv4"] != 7 || p.Seen["ipv4"] != 7 {
		t.Errorf("%d tries, %d as expected, want 7: two were not sent", p.Tried["ipv4"], p.Seen["ipv4"])
	}
}

// What arrived between blocks, and must not, is of what a filter refuses.
func TestSampled(t *testing.T) {
	log := measure.Log{Matrices: matrices()[:1]}
	log.Proofs = append(log.Matrices[0].Proofs(), measure.Proof{Lab: log.Matrices[0].Lab, Name: measure.Sampled})
	a := measure.Analyze(measure.Run{}, &log)
	if p := a.Proved()[0]; p.Refused != measure.HeldNot || p.Others != measure.NotProved {
		t.Errorf("refused %q, others %q, want the first one broken", p.Refused, p.Others)
	}
}
