package proof_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
)

// described is a lab of one host with that number of pairs and a filter.
func described(pairs int) proof.Lab {
	l := proof.Lab{
		Hosts: []proof.Host{{Name: "host1"}}, Families: []string{"ipv4", "ipv6"}, MTU: 1500, Filtered: true,
	}
	for i := range pairs {
		for n, name := range []string{fmt.Sprintf("src%d", i), fmt.Sprintf("snk%d", i)} {
			v4 := netip.AddrFrom4([4]byte{10, 0, byte(i), byte(1 + n)})
			v6 := netip.AddrFrom16([16]byte{0xfd, 14: byte(i), 15: byte(1 + n)})
			first := uint16(20_000 + 100*i + 50*n)
			l.Hosts[0].Containers = append(l.Hosts[0].Containers, proof.Container{
				Name: name, Namespace: name, IPv4: v4, IPv6: v6, PublicIPv4: v4, PublicIPv6: v6, First: first, Last: first + 49,
			})
		}
		l.Pairs = append(l.Pairs, proof.Pair{Source: fmt.Sprintf("src%d", i), Sink: fmt.Sprintf("snk%d", i)})
	}
	return l
}

// fake is a lab in which nothing is sent: everything is as it should be, but for what leaks and is lost.
type fake struct {
	wrong  func(t proof.Try) bool  // it comes out otherwise
	err    func(t proof.Try) error // it cannot be tried
	tried  []proof.Try
	open   map[proof.End]bool
	closed error
}

func (f *fake) Open(_ context.Context, t proof.Try) error {
	if f.open == nil {
		f.open = map[proof.End]bool{}
	}
	f.open[t.To] = true
	return nil
}

func (f *fake) Try(_ context.Context, list []proof.Try) (seen []proof.Seen) {
	for _, t := range list {
		seen = append(seen, f.try(t))
	}
	return seen
}

func (f *fake) try(t proof.Try) proof.Seen {
	if f.err != nil {
		if err := f.err(t); err != nil {
			return proof.Seen{NotTried: err.Error()}
		}
	}
	if !f.open[t.To] {
		return proof.Seen{NotTried: "nobody would answer"}
	}
	f.tried = append(f.tried, t)
	if t.Answered != (f.wrong != nil && f.wrong(t)) {
		return proof.Seen{Answered: true, More: t.More}
	}
	return proof.Seen{Detail: "no answer"}
}

func (f *fake) Close(context.Context) error {
	f.open = nil
	return f.closed
}

// plan is a plan of ways that finds what the test gives it.
type plan struct {
	next, counted error
	beyond        error   // of the trials
	excess        []error // of one proof after another
	seen          *int    // how many there were
	short         string  // the counter that counted less than was sent
}

func (p plan) Next([]host.Trace) error { return p.next }

func (p plan) Counted(_, _ []host.Trace, _, sent []int64) (missing, excess error) {
	if sent == nil || len(p.excess) == 0 {
		return p.counted, nil
	}
	*p.seen++
	return p.counted, p.excess[min(*p.seen, len(p.excess))-1]
}

func (p plan) Beyond(_, _ []host.Trace, _ time.Duration) error { return p.beyond }

func (p plan) Short(_, _ []host.Trace, _ int, sent int64) string {
	if p.short == "" {
		return ""
	}
	return fmt.Sprintf("%s, but %d were sent", p.short, sent)
}

func ways(p plan, err error) *proof.Ways {
	var trips []proof.Trip
	for pair := range 2 {
		for _, family := range []string{"ipv4", "ipv6"} {
			trips = append(trips, proof.Trip{Pair: pair, Family: family}, proof.Trip{Pair: pair, Family: family, Back: true})
		}
	}
	return proof.NewWays(p, nil, trips, func(context.Context, bool, []byte, bool) ([]host.Trace, error) {
		return []host.Trace{}, err
	})
}

// Each leak and each loss is reported with the claim that it breaks, and with no other.
func TestPlay(t *testing.T) {
	both := func(n int) map[string]int { return map[string]int{"ipv4": n, "ipv6": n} }
	sound := []measure.Proof{
		{Name: proof.Passes, Tried: both(2), Seen: both(2), OK: true},
		{Name: proof.Path, Tried: both(4), Seen: both(4), OK: true},
		{Name: proof.Refuses, Tried: both(4), Seen: both(4), OK: true},
	}
	changed := func(i int, change func(p *measure.Proof)) []measure.Proof {
		list := slices.Clone(sound)
		change(&list[i])
		return list
	}
	unlisted := func(t proof.Try) bool { return !t.Answered && t.To.Container == "snk1" && t.Pair == 1 }
	for _, c := range []struct {
		name string
		fake fake
		ways *proof.Ways
		want []measure.Proof
	}{
		{name: "all holds", want: sound},
		{
			name: "a pair does not pass", fake: fake{wrong: func(t proof.Try) bool {
				return t.Answered && t.Pair == 1 && t.Family == "ipv6"
			}},
			want: changed(0, func(p *measure.Proof) {
				p.Seen, p.OK, p.Detail = map[string]int{"ipv4": 2, "ipv6": 1}, false, "pair 1, ipv6: no answer"
			}),
		},
		{
			name: "a device counts too few", fake: fake{wrong: func(t proof.Try) bool {
				return t.Answered && t.Pair == 1 && t.Family == "ipv6"
			}},
			ways: ways(plan{short: "host1 counted 2 packets sent by vxlan0"}, nil),
			want: changed(0, func(p *measure.Proof) {
				p.Seen, p.OK = map[string]int{"ipv4": 2, "ipv6": 1}, false
				p.Detail = "pair 1, ipv6: no answer; host1 counted 2 packets sent by vxlan0, but 12 were sent"
			}),
		},
		{
			name: "a port that is not on the list", fake: fake{wrong: unlisted},
			want: changed(2, func(p *measure.Proof) {
				p.Seen, p.OK = both(3), false
				p.Detail = "the filter allows packets that it must refuse: 10.0.1.2:20199 answers 10.0.1.1:20100, which must not " +
					"reach it (and 1 more)"
			}),
		},
		{
			name: "the sink of another pair", fake: fake{wrong: func(t proof.Try) bool {
				return t.Pair == 1 && t.To.Container == "snk0" && t.Family == "ipv4"
			}},
			want: changed(2, func(p *measure.Proof) {
				p.Seen, p.OK = map[string]int{"ipv4": 3, "ipv6": 4}, false
				p.Detail = "the filter allows packets that it must refuse: 10.0.0.2:20050 answers 10.0.1.1:20100, which must not " +
					"reach it"
			}),
		},
		{
			name: "packets take another way", ways: ways(plan{counted: errors.New("host1 counted 0 packets")}, nil),
			want: changed(1, func(p *measure.Proof) {
				p.Seen, p.OK, p.Detail = map[string]int{}, false, "host1 counted 0 packets"
			}),
		},
		{
			name: "a switch that floods",
			ways: ways(plan{excess: []error{errors.New("host1 counted 500 packets")}, seen: new(int)}, nil),
			want: changed(1, func(p *measure.Proof) {
				p.Seen, p.OK, p.Detail = map[string]int{}, false, "host1 counted 500 packets"
			}),
		},
		{
			name: "late acknowledgements of a trial",
			ways: ways(plan{excess: []error{errors.New("host1 counted 500 packets"), nil}, seen: new(int)}, nil), want: sound,
		},
		{
			name: "packets go to another neighbour", ways: ways(plan{next: errors.New("packets go to eth1")}, nil),
			want: changed(1, func(p *measure.Proof) {
				p.Seen, p.OK, p.Detail = map[string]int{}, false, "packets go to eth1"
			}),
		},
		{
			name: "hosts that do not say what they counted", ways: ways(plan{}, errors.New("the host is gone")),
			want: changed(1, func(p *measure.Proof) {
				p.Tried, p.Seen, p.OK, p.Detail = map[string]int{}, map[string]int{}, false, "not tried: the host is gone"
			}),
		},
		{
			name: "a try that never ends", fake: fake{err: func(t proof.Try) error {
				if t.Answered && t.Pair == 0 && t.Family == "ipv4" {
					return context.DeadlineExceeded
				}
				return nil
			}},
			want: changed(0, func(p *measure.Proof) {
				p.Tried, p.Seen, p.OK = map[string]int{"ipv4": 1, "ipv6": 2}, map[string]int{"ipv4": 1, "ipv6": 2}, false
				p.Detail = "pair 0, ipv4: not tried: context deadline exceeded"
			}),
		},
		{
			name: "a claim of which nothing can be tried", fake: fake{err: func(t proof.Try) error {
				if !t.Answered {
					return errors.New("the worker is dead")
				}
				return nil
			}},
			want: changed(2, func(p *measure.Proof) {
				p.Tried, p.Seen, p.OK = map[string]int{}, map[string]int{}, false
				p.Detail = "pair 0 to a port that is not on the list, ipv4: not tried: the worker is dead (and 7 more)"
			}),
		},
		{
			name: "sockets that cannot be closed", fake: fake{closed: errors.New("no answer")},
			want: []measure.Proof{
				{Name: proof.Passes, Tried: both(2), Seen: both(2), Detail: "no answer"},
				sound[1],
				{Name: proof.Refuses, Tried: both(4), Seen: both(4), Detail: "no answer"},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.ways == nil {
				c.ways = ways(plan{}, nil)
			}
			got := proof.Play(t.Context(), described(2).Claims(c.ways), &c.fake)
			for i := range got {
				if got[i].Claim == "" || got[i].Expected == "" {
					t.Errorf("claim %q says %q and expects %q, want sentences", got[i].Name, got[i].Claim, got[i].Expected)
				}
				got[i].Claim, got[i].Expected = "", ""
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// wire is what is between hosts. It wants frames that hold the mark, and finds that they leak.
type wire struct{ text, hidden string }

func (w wire) Text() string   { return w.text }
func (w wire) Hidden() string { return w.hidden }
func (wire) Layers() string   { return "underlay 1500, vxlan −50" }

func (w wire) Heard(frames []host.Frames) (wrong, leak error) {
	if len(frames) != 1 || frames[0].Marked == 0 {
		return fmt.Errorf("heard %v", frames), nil
	}
	return nil, errors.New("read")
}

// Each datagram that is to be answered holds what the tap looks for, which is another in each proof. What the tap has
// heard is a claim of its own, between that of the way and that of the filter.
func TestWire(t *testing.T) {
	var listening []byte
	var marks []string
	var f fake
	gone := false
	w := proof.NewWays(plan{}, wire{"packets are ciphertext", "nothing is read"}, []proof.Trip{{Family: "ipv4"}, {Family: "ipv4", Back: true}},
		func(_ context.Context, hops bool, mark []byte, keep bool) ([]host.Trace, error) {
			if gone {
				return nil, errors.New("the host is gone")
			}
			heard := host.Frames{Count: len(f.tried)}
			for _, try := range f.tried {
				if listening != nil && string(try.Mark) == string(listening) {
					heard.Marked++
				}
			}
			if hops != (mark == nil) || keep != (mark != nil) {
				t.Errorf("with mark %x it asks for hops: %t, and keeps frames: %t", mark, hops, keep)
			}
			if listening = mark; mark != nil {
				marks = append(marks, string(mark))
			}
			return []host.Trace{{Frames: []host.Frames{heard}}}, nil
		})
	lab := described(1)
	for range 2 {
		f = fake{}
		list := proof.Play(t.Context(), lab.Claims(w), &f)
		if len(list) != 5 || list[2].Name != proof.OnWire || !list[2].OK || list[2].Claim != "packets are ciphertext" {
			t.Fatalf("%+v, want the third claim to hold, which is of the wire", list)
		}
		if p := list[3]; p.Name != proof.Hidden || p.OK || p.Detail != "read" || len(p.Tried) == 0 {
			t.Errorf("%+v, want that it was read", p)
		}
		for _, try := range f.tried {
			if try.Answered != (len(try.Mark) == 16) {
				t.Errorf("%s holds the mark %x", try.Name, try.Mark)
			}
		}
	}
	if len(marks) != 2 || marks[0] == marks[1] {
		t.Errorf("marks of two proofs: %x", marks)
	}
	f = fake{err: func(proof.Try) error { return errors.New("the worker is dead") }}
	if list := proof.Play(t.Context(), lab.Claims(w), &f); list[2].OK || list[2].Detail != "heard [IP protocol 0]" {
		t.Errorf("nothing was sent, and the claim of the wire is %+v", list[2])
	}
	gone = true
	if list := proof.Play(t.Context(), lab.Claims(w), &fake{}); list[2].OK || list[2].Detail != "not tried" {
		t.Errorf("the host is gone, and the claim of the wire is %+v", list[2])
	} else if list[3].Detail != "not tried" || len(list[3].Tried) > 0 {
		t.Errorf("the host is gone, and the claim that nothing is read is %+v", list[3])
	}
}

// quiet finds that a kind of tries can be read, the one with that length.
type quiet struct {
	wire
	leaks int
}

func (q quiet) Heard(frames []host.Frames) (wrong, leak error) {
	for _, f := range frames {
		if f.Longest == q.leaks && f.Marked > 0 {
			leak = fmt.Errorf("%d of %d can be read", f.Marked, f.Count)
		}
	}
	return nil, leak
}

// Where nothing can be read of datagrams in one piece, fragments and streams are sent as well, each with the mark, and
// none is expected to arrive. What can be read of them is a leak.
func TestOtherForms(t *testing.T) {
	lengths := map[proof.Form]int{"": 1, proof.Fragments: 2, proof.Stream: 3}
	for leaks, want := range []string{"", "2 of 2 can be read", "2 of 2 can be read", "2 of 2 can be read"} {
		var f fake
		var marks []string
		var listening []byte
		from := 0
		w := proof.NewWays(plan{}, quiet{wire{"packets are ciphertext", "nothing is read"}, leaks},
			[]proof.Trip{{Family: "ipv4"}, {Family: "ipv4", Back: true}},
			func(_ context.Context, _ bool, mark []byte, _ bool) ([]host.Trace, error) {
				byLength := map[int]*host.Frames{}
				for _, try := range f.tried[from:] {
					n := lengths[try.Form]
					if byLength[n] == nil {
						byLength[n] = &host.Frames{Longest: n}
					}
					byLength[n].Count++
					if string(try.Mark) == string(listening) {
						byLength[n].Marked++
					}
				}
				from = len(f.tried)
				if listening = mark; mark != nil {
					marks = append(marks, string(mark))
				}
				var trace host.Trace
				for _, frames := range byLength {
					trace.Frames = append(trace.Frames, *frames)
				}
				return []host.Trace{trace}, nil
			})
		lab := described(1)
		list := proof.Play(t.Context(), lab.Claims(w), &f)
		if p := list[3]; p.Name != proof.Hidden || p.OK != (want == "") || p.Detail != want {
			t.Errorf("frames of length %d leak: %+v, want %q", leaks, p, want)
		}
		if both := 2; leaks != 1 && len(marks) != both {
			t.Errorf("the tap listened %d times, want %d", len(marks), both)
		}
	}
}

// A form of which no try could be made is no evidence.
func TestOtherFormsNotMade(t *testing.T) {
	f := fake{err: func(try proof.Try) error {
		if try.Form == proof.Stream {
			return errors.New("no port is left")
		}
		return nil
	}}
	w := proof.NewWays(plan{}, quiet{wire{"packets are ciphertext", "nothing is read"}, 0},
		[]proof.Trip{{Family: "ipv4"}, {Family: "ipv4", Back: true}},
		func(context.Context, bool, []byte, bool) ([]host.Trace, error) { return []host.Trace{{}}, nil })
	p := proof.Play(t.Context(), described(1).Claims(w), &f)[3]
	if p.Name != proof.Hidden || p.OK || p.Detail != "stream: not tried: no port is left" {
		t.Errorf("%+v, want that streams were not tried", p)
	}
}

// Devices that counted more than containers sent since the last proof refute the way of packets, and not before it.
func TestBeyond(t *testing.T) {
	w := ways(plan{beyond: errors.New("host1 counted 1500 packets")}, nil)
	for i, want := range []string{"", "packets of the trials: host1 counted 1500 packets"} {
		if p := proof.Play(t.Context(), described(2).Claims(w), &fake{})[1]; p.Name != proof.Path || p.Detail != want {
			t.Errorf("proof %d: %+v, want detail %q", i, p, want)
		}
	}
}

// A claim without tries is not held.
func TestNotTried(t *testing.T) {
	got := proof.Play(t.Context(), []proof.Claim{{Name: proof.Passes}}, &fake{})
	if len(got) != 1 || got[0].OK || got[0].Detail != "not tried" {
		t.Errorf("%+v, want one that is not tried, and has not held", got)
	}
	none := described(1)
	none.Families = nil
	if p := proof.Play(t.Context(), none.Claims(nil), &fake{})[0]; p.OK || p.Detail != "not tried" {
		t.Errorf("%s without a family: %+v, want that it is not tried", p.Name, p)
	}
}

// In a family in which no pair may talk, a source must not be answered at any port, its own pair's among them.
func TestOtherFamily(t *testing.T) {
	lab := described(2)
	lab.Families = []string{"ipv4"}
	beside := fake{wrong: func(try proof.Try) bool { return try.Family == "ipv6" && !try.Answered }}
	for _, p := range proof.Play(t.Context(), lab.Claims(nil), &beside) {
		want := ""
		if p.Name == proof.Refuses {
			want = "the filter allows packets that it must refuse: "
		}
		if !strings.HasPrefix(p.Detail, want) || p.OK != (want == "") {
			t.Errorf("IPv6 passes beside a list of IPv4, and the claim %s is %+v", p.Name, p)
		}
	}
	for _, try := range beside.tried {
		if source := try.From.Container[3:]; try.Family == "ipv6" && (try.Answered || try.To.Container[3:] == source &&
			try.To.Public.Port() != lab.Hosts[0].Containers[2*try.Pair+1].First) {
			t.Errorf("tried %+v", try)
		}
	}
}

// What is tried: every pair in every family, of eight pairs also a port that is not on the list and the next sink.
func TestClaims(t *testing.T) {
	tries := func(l proof.Lab) map[string]int {
		count := map[string]int{}
		var f fake
		for _, c := range l.Claims(nil) {
			count[c.Name] = len(c.Tries)
		}
		proof.Play(t.Context(), l.Claims(nil), &f)
		for _, try := range f.tried {
			if source := fmt.Sprintf("src%d", try.Pair); try.From.Container != source || try.From.Local.Port() == 0 {
				t.Errorf("%s is sent by %s, want %s", try.Name, try.From.Container, source)
			}
		}
		return count
	}
	open := described(3)
	open.Filtered = false
	for _, c := range []struct {
		lab  proof.Lab
		want map[string]int
	}{
		{described(1), map[string]int{proof.Passes: 2, proof.Refuses: 2}},
		{described(3), map[string]int{proof.Passes: 6, proof.Refuses: 12}},
		{described(10), map[string]int{proof.Passes: 20, proof.Refuses: 32}},
		{open, map[string]int{proof.Passes: 6}},
	} {
		if diff := cmp.Diff(c.want, tries(c.lab)); diff != "" {
			t.Errorf("%d pairs (-want +got):\n%s", len(c.lab.Pairs), diff)
		}
	}
	uncounted := described(1)
	uncounted.Uncounted = []string{"command"}
	if said := uncounted.Claims(&proof.Ways{})[1].Text; !strings.Contains(said, "of command: at least 1 packet") {
		t.Errorf("of a workload that does not count its packets the claim says %q", said)
	}
	translated := described(1)
	translated.Hosts = slices.Clone(translated.Hosts)
	for i := range translated.Hosts {
		h := &translated.Hosts[i]
		h.Containers = slices.Clone(h.Containers)
		for j := range h.Containers {
			h.Containers[j].PublicIPv6 = netip.MustParseAddr("2001:db8::1")
		}
	}
	const says = ", to the translated address of its sink"
	if plain, other := described(1).Claims(nil)[0].Text, translated.Claims(nil)[0].Text; other != plain+says {
		t.Errorf("with a translated address the claim says %q, and without %q", other, plain)
	}
	try := described(2).Claims(nil)[0].Tries[1]
	if try.Payload != 1452 || !strings.HasPrefix(try.Name, "pair 0, ipv6") || !try.Answered || try.More == 0 {
		t.Errorf("the second try is %+v, want a full datagram of IPv6 and more", try)
	}
}
