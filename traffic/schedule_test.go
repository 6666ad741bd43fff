package traffic_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/traffic"
)

// schedule makes a schedule of 10,000 messages a second, of 500 bytes.
func schedule(t testing.TB, change func(*traffic.ScheduleSpec)) *traffic.Schedule {
	t.Helper()
	spec := traffic.ScheduleSpec{
		Rate: 10_000, Arrivals: "constant", Sizes: "constant", Size: 500, Least: 1, Most: 65507, Seed: 7,
	}
	change(&spec)
	s, err := traffic.NewSchedule(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// moments returns mean and coefficient of variation.
func moments(list []float64) (mean, cv float64) {
	for _, x := range list {
		mean += x / float64(len(list))
	}
	for _, x := range list {
		cv += (x - mean) * (x - mean) / float64(len(list))
	}
	return mean, math.Sqrt(cv) / mean
}

// Each distribution has the mean of the rate or the size, and the scatter of its formula.
func TestDistributions(t *testing.T) {
	for _, c := range []struct {
		name string
		cv   float64 // of the distribution, approximately: if the variance is finite
		off  float64 // the tolerance: extreme quantiles have the largest weight
	}{
		{"constant", 0, 1e-9},
		{"exponential", 1, 0.01},
		{"uniform", 1 / math.Sqrt(3), 0.001},
		{"uniform:0.5", 0.5 / math.Sqrt(3), 0.001},
		{"normal", 0.25, 0.005},
		{"gamma", 1 / math.Sqrt(2), 0.01},
		{"gamma:4", 0.5, 0.01},
		{"weibull:2", math.Sqrt(4/math.Pi - 1), 0.01},
		{"pareto:3", 1 / math.Sqrt(3), 0.1},
		{"pareto", -1, 0},
		{"cauchy", -1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := schedule(t, func(spec *traffic.ScheduleSpec) { spec.Arrivals, spec.Sizes = c.name, c.name })
			s.Begin(3)
			const n = 1 << 14
			gaps, sizes := make([]float64, n), make([]float64, n)
			for i := range uint64(n) {
				gaps[i] = float64(s.Due(i+1) - s.Due(i))
				sizes[i] = float64(s.Size(i))
				if gaps[i] < 0 {
					t.Fatalf("message %d is due %v ns before the one before it", i+1, -gaps[i])
				}
			}
			mean, cv := moments(gaps)
			if math.Abs(mean/100_000-1) > 1e-6 {
				t.Errorf("a mean gap of %v ns, want 100 µs", mean)
			}
			if c.cv >= 0 && math.Abs(cv-c.cv) > c.off {
				t.Errorf("gaps with a coefficient of variation of %.4f, want %.4f", cv, c.cv)
			}
			mean, cv = moments(sizes)
			if c.name != "cauchy" && c.name != "pareto" && math.Abs(mean/500-1) > 0.01 {
				t.Errorf("a mean size of %v, want 500", mean)
			}
			if c.cv >= 0 && math.Abs(cv-c.cv) > c.off+0.002 { // sizes are whole numbers
				t.Errorf("sizes with a coefficient of variation of %.4f, want %.4f", cv, c.cv)
			}
			if got := s.Due(1_000_000); math.Abs(float64(got)/100e9-1) > 0.01 {
				t.Errorf("message 1,000,000 is due after %.3f s, want 100", float64(got)/1e9)
			}
		})
	}
}

// Two stacks get the same arrivals; other trials, pairs or seeds get others.
func TestArrivalsComeFromTheSeed(t *testing.T) {
	at := func(seed, trial uint64) string {
		s := schedule(t, func(spec *traffic.ScheduleSpec) {
			spec.Arrivals, spec.Sizes, spec.Seed = "poisson", "uniform", seed
		})
		s.Begin(trial)
		var b strings.Builder
		for i := range uint64(100) {
			fmt.Fprintln(&b, s.Due(i), s.Size(i))
		}
		return b.String()
	}
	first := at(1, 5)
	if at(1, 5) != first {
		t.Error("the same seed and trial, and other arrivals")
	}
	if first == at(1, 6) || first == at(2, 5) {
		t.Error("another seed or trial, and the same arrivals")
	}
}

// phases returns the starts of all senders in a trial, as shares of their gaps.
func phases(s *traffic.Schedule, trial uint64) []float64 {
	s.Begin(trial)
	list := make([]float64, s.Senders())
	for turn := range list {
		list[s.Sender(turn)] = float64(s.Due(uint64(turn))) * s.Rate() / 1e9 / float64(len(list))
	}
	return list
}

// Each of several senders sends evenly, at its share of the rate, and all messages are due in order.
func TestSenders(t *testing.T) {
	const senders, rounds = 100, 50
	s := schedule(t, func(spec *traffic.ScheduleSpec) { spec.Senders = senders })
	s.Begin(3)
	last, own := int64(0), make([][]int64, senders)
	for n := range uint64(senders * rounds) {
		due, turn := s.Due(n), int(n%senders)
		if due < last {
			t.Fatalf("message %d is due at %d, after %d", n, due, last)
		}
		if s.Turn(s.Sender(turn)) != turn {
			t.Fatalf("turn %d is that of sender %d, which has turn %d", turn, s.Sender(turn), s.Turn(s.Sender(turn)))
		}
		last = due
		own[s.Sender(turn)] = append(own[s.Sender(turn)], due)
	}
	for sender, dues := range own {
		if len(dues) != rounds || dues[0] >= 10_000_000 {
			t.Errorf("sender %d has %d messages, the first at %d ns; want %d, the first within 10 ms", sender, len(dues),
				dues[0], rounds)
		}
		for i := 1; i < len(dues); i++ {
			if gap := dues[i] - dues[i-1]; gap < 9_999_999 || gap > 10_000_001 {
				t.Fatalf("sender %d has messages %d ns apart, want 10 ms", sender, gap)
			}
		}
	}
	if _, err := traffic.NewSchedule(traffic.ScheduleSpec{
		Rate: 1, Arrivals: "poisson", Sizes: "constant", Size: 1, Most: 1, Senders: 2,
	}); err == nil || !strings.Contains(err.Error(), `2 senders with arrivals "poisson"`) {
		t.Errorf("senders with other arrivals: %v", err)
	}
}

// The starts of senders are uniform, and independent between senders, between trials and between seeds. For a seed and
// a trial they are always the same. If senders took turns on one schedule, all of a trial would be correlated.
func TestSendersAreIndependent(t *testing.T) {
	const senders, trials = 20, 4000
	of := func(seed uint64) *traffic.Schedule {
		return schedule(t, func(spec *traffic.ScheduleSpec) { spec.Senders, spec.Seed = senders, seed })
	}
	s, other := of(7), of(8)
	var series [][]float64 // of each sender, by trial; then of the first one a trial later, and with another seed
	for range senders + 2 {
		series = append(series, make([]float64, trials))
	}
	for trial := range trials {
		list := phases(s, uint64(trial))
		for i, phase := range list {
			series[i][trial] = phase
		}
		series[senders][(trial+1)%trials] = list[0]
		series[senders+1][trial] = phases(other, uint64(trial))[0]
	}
	const sigmas = 5
	for i, x := range series {
		mean, cv := moments(x)
		if math.Abs(mean-0.5) > sigmas*math.Sqrt(1./12/trials) || math.Abs(cv*mean-math.Sqrt(1./12)) > 0.01 {
			t.Errorf("series %d: mean %.4f, standard deviation %.4f; want 0.5 and 0.289 of a uniform distribution", i, mean,
				cv*mean)
		}
		for k, y := range series[:i] {
			if r := correlation(x, y); math.Abs(r) > sigmas/math.Sqrt(trials) {
				t.Errorf("series %d and %d: a correlation of %.3f", k, i, r)
			}
		}
	}
	if a, b := phases(s, 11), phases(of(7), 11); !slices.Equal(a, b) {
		t.Errorf("the same seed and trial, and other arrivals: %v, %v", a, b)
	}
}

// correlation returns Pearson's correlation.
func correlation(x, y []float64) float64 {
	mx, cx := moments(x)
	my, cy := moments(y)
	sum := 0.0
	for i := range x {
		sum += (x[i] - mx) * (y[i] - my) / float64(len(x))
	}
	return sum / (cx * mx * cy * my)
}

// Poisson arrivals have the right number of messages in an interval, with the variance of a Poisson process.
func TestPoissonCounts(t *testing.T) {
	s := schedule(t, func(spec *traffic.ScheduleSpec) { spec.Arrivals = "poisson" })
	counts := make([]float64, 1600) // of 1 ms
	for i := uint64(0); s.Due(i) < 1_600_000_000; i++ {
		counts[s.Due(i)/1_000_000]++
	}
	mean, cv := moments(counts)
	if variance := cv * cv * mean * mean; math.Abs(mean-10) > 0.1 || variance < 9 || variance > 11 {
		t.Errorf("10 messages a ms: mean %.2f, variance %.2f", mean, variance)
	}
}

func TestBursts(t *testing.T) {
	s := schedule(t, func(spec *traffic.ScheduleSpec) { spec.Arrivals = "bursts:10ms:40ms" })
	for i := range uint64(10_000) {
		due := s.Due(i)
		if phase := due % 50_000_000; phase > 10_000_000 {
			t.Fatalf("message %d is due %d ns after the beginning of a period that is on for 10 ms", i, phase)
		}
		if want := int64(i/500) * 50_000_000; due < want || due > want+10_000_000 {
			t.Fatalf("message %d is due at %d, want it in the period that begins at %d", i, due, want)
		}
	}
	if got := s.Due(501) - s.Due(500); got < 19_999 || got > 20_001 {
		t.Errorf("within a burst two are %d ns apart, want 20 µs", got)
	}
}

func TestReplay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("# time size\n10.0 100\n10.1 200\n\n10.4, 70000\n10.9\n")
	id, err := traffic.ParseArrivals("replay:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := traffic.ParseArrivals(id); err != nil || again != id {
		t.Errorf("%q does not lead back to itself: %q, %v", id, again, err)
	}
	as := func(rate float64) *traffic.Schedule {
		return schedule(t, func(spec *traffic.ScheduleSpec) { spec.Arrivals, spec.Rate = id, rate })
	}
	s := as(0)
	for i, want := range []struct {
		due  int64
		size int
	}{{0, 100}, {100e6, 200}, {400e6, 65507}, {900e6, 500}, {1200e6, 100}, {1300e6, 200}} {
		if due, size := s.Due(uint64(i)), s.Size(uint64(i)); max(due-want.due, want.due-due) > 1 || size != want.size {
			t.Errorf("message %d: %d bytes at %d, want %d at %d", i, size, due, want.size, want.due)
		}
	}
	if got := s.Rate(); math.Abs(got-4/1.2) > 1e-9 {
		t.Errorf("%v a second, want 3.33", got)
	}
	if s := as(1000); s.Due(4000) < 3_999_999_000 || s.Due(4000) > 4_000_001_000 {
		t.Errorf("at 1000 a second, message 4000 is due at %d", s.Due(4000))
	}
	write("0\n1\n")
	if _, err := traffic.NewSchedule(traffic.ScheduleSpec{
		Arrivals: id, Sizes: "constant", Size: 1, Most: 1,
	}); err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("the file was changed: %v", err)
	}
}

func TestParseArrivalsErrors(t *testing.T) {
	for given, want := range map[string]string{
		"often": "(known: constant, exponential, uniform[:spread], normal[:spread], pareto[:shape], " +
			"gamma[:shape], weibull[:shape], cauchy[:spread]); or poisson, bursts:ON:OFF, replay:FILE",
		"pareto:1":             "valid: a shape from 1.01 to 100, such as pareto:1.5",
		"uniform:NaN":          "valid: a spread from 0 to 1",
		"constant:1":           "has no parameter",
		"poisson:2":            "has no parameter",
		"bursts:10ms":          "such as bursts:10ms:40ms",
		"bursts:0s:1s":         "such as bursts:10ms:40ms",
		"replay:":              "such as replay:trace.txt",
		"replay:/no/such/file": "no such file",
		"replay:/proc":         "is a directory",
	} {
		if _, err := traffic.ParseArrivals(given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", given, err, want)
		}
	}
}

func TestDueAllocatesNothing(t *testing.T) {
	for _, arrivals := range []string{"constant", "poisson", "bursts:1ms:1ms"} {
		s := schedule(t, func(spec *traffic.ScheduleSpec) { spec.Arrivals, spec.Sizes = arrivals, "uniform" })
		if n := testing.AllocsPerRun(100, func() { s.Due(12345); s.Size(12345) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", arrivals, n)
		}
	}
	s := schedule(t, func(spec *traffic.ScheduleSpec) { spec.Senders = 100 })
	if n := testing.AllocsPerRun(100, func() { s.Begin(5); s.Due(12345); s.Turn(s.Sender(45)) }); n != 0 {
		t.Errorf("senders: %v allocations, want none", n)
	}
}

// FuzzParseArrivals checks that every text is refused, or makes a schedule that never goes back in time.
func FuzzParseArrivals(f *testing.F) {
	for _, s := range []string{
		"constant", "poisson", "gamma:0.05", "cauchy:10", "bursts:1ns:1h", "normal:10", "replay:x@y", "weibull:0.1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.HasPrefix(text, "replay:") {
			return
		}
		id, err := traffic.ParseArrivals(text)
		if err != nil {
			return
		}
		if again, err := traffic.ParseArrivals(id); err != nil || again != id {
			t.Fatalf("%q: %q does not lead back to itself: %q, %v", text, id, again, err)
		}
		s := schedule(t, func(spec *traffic.ScheduleSpec) { spec.Arrivals = id })
		last := int64(0)
		for i := range uint64(2000) {
			due := s.Due(i)
			if due < last {
				t.Fatalf("%q: message %d is due at %d, after %d", text, i, due, last)
			}
			last = due
		}
	})
}

func FuzzParseReplay(f *testing.F) {
	f.Add([]byte("0 100\n0.5;200\n# x\n1,3\n"))
	f.Add([]byte("1e300\n-1e300\nNaN\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := traffic.ParseReplay(data)
		if err != nil {
			return
		}
		for i, a := range list {
			if a.At < 0 || i > 0 && a.At < list[i-1].At || a.Size < 0 {
				t.Fatalf("message %d: %+v", i, a)
			}
		}
	})
}

func BenchmarkDue(b *testing.B) {
	for _, arrivals := range []string{"constant", "poisson", "bursts:1ms:1ms"} {
		b.Run(arrivals, func(b *testing.B) {
			s := schedule(b, func(spec *traffic.ScheduleSpec) { spec.Arrivals = arrivals })
			for i := uint64(0); b.Loop(); i++ {
				s.Due(i)
			}
		})
	}
	b.Run("100 senders", func(b *testing.B) {
		s := schedule(b, func(spec *traffic.ScheduleSpec) { spec.Senders = 100 })
		for i := uint64(0); b.Loop(); i++ {
			s.Due(i)
		}
	})
}

// A schedule with a changed rate equals one made with that rate. Before agrees with Due, and unsent messages inside the
// window are counted.
func TestBefore(t *testing.T) {
	for _, arrivals := range []string{"constant", "poisson", "cauchy:3", "bursts:2ms:30ms"} {
		s := schedule(t, func(spec *traffic.ScheduleSpec) { spec.Arrivals = arrivals })
		for _, since := range []int64{-1, 0, 1, 12_345, 1e6, 33e6, 1e9, 3e9} {
			n := s.Before(since)
			if n > 0 && s.Due(n-1) >= since || s.Due(n) < since {
				t.Errorf("%s: %d messages are due before %d ns; the last at %d, the next at %d", arrivals, n, since,
					s.Due(max(n, 1)-1), s.Due(n))
			}
		}
	}
	s := schedule(t, func(spec *traffic.ScheduleSpec) { spec.Rate = 1000 })
	w := traffic.Window{Open: 5e9, Start: 5e9 + 10e6, Close: 5e9 + 100e6}
	for next, want := range map[uint64]int64{0: 90, 10: 90, 60: 40, 100: 0, 101: 0} {
		if got := s.Unsent(next, w.Open, w); got != want {
			t.Errorf("%d messages were sent, and %d of those in the window not, want %d", next, got, want)
		}
	}
}

func TestSetRate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.txt")
	if err := os.WriteFile(file, []byte("0\n0.001 100\n0.005\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	replay, err := traffic.ParseArrivals("replay:" + file)
	if err != nil {
		t.Fatal(err)
	}
	for _, arrivals := range []string{"constant", "poisson", "bursts:2ms:3ms", replay} {
		s := schedule(t, func(spec *traffic.ScheduleSpec) { spec.Arrivals = arrivals })
		want := schedule(t, func(spec *traffic.ScheduleSpec) { spec.Arrivals, spec.Rate = arrivals, 70_000 })
		if n := testing.AllocsPerRun(10, func() { s.SetRate(70_000) }); n != 0 {
			t.Errorf("%s: %g allocations", arrivals, n)
		}
		if math.Abs(s.Rate()/want.Rate()-1) > 1e-9 {
			t.Errorf("%s: a rate of %g, want %g", arrivals, s.Rate(), want.Rate())
		}
		for _, n := range []uint64{0, 1, 2, 3, 100, 1e6} {
			if got, want := s.Due(n), want.Due(n); math.Abs(float64(got-want)) > 1+1e-9*float64(want) {
				t.Errorf("%s: message %d is due at %d, want %d", arrivals, n, got, want)
			}
		}
	}
}
