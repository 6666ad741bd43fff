package control

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// simulation measures made-up generations. What a cell gives depends on how many generations were measured to their end
// before, on the block and on the cell: so a generation that takes the place of one that was dropped has the same
// figures, with another number.
type simulation struct {
	noise    float64
	differ   float64       // sd between generations
	overhead time.Duration // of each generation
	blocks   int           // so far, of this part
	after    func(n int)   // is told of each block
	used     map[int]bool  // numbers of generations
	twice    []int         // those that were used twice
}

func (m *simulation) perform(ctx context.Context, s *scheduler, number, blocks int, must bool) error {
	if m.used[number] {
		m.twice = append(m.twice, number)
	}
	m.used[number] = true
	k, first, measured := len(s.records.log.Generations), s.blocks, s.measured
	r := rand.New(rand.NewPCG(7, uint64(k)))
	differs := m.differ * rand.New(rand.NewPCG(8, uint64(k))).NormFloat64()
	for range blocks {
		if ctx.Err() != nil || !must && s.measured >= s.experiment.Design.Time {
			break
		}
		var trials []trial
		for i, c := range s.cells {
			ratio := 1.0
			if strings.HasPrefix(c.ID, "bridge") {
				ratio = 1.3 * math.Exp(differs)
			}
			x := ratio * 1e-5 * math.Exp(m.noise*r.NormFloat64())
			h := traffic.NewHistogram()
			for range 200 {
				if err := h.RecordValue(int64(1e9 * x)); err != nil {
					return err
				}
			}
			if s.gone[i] != "" {
				continue
			}
			trials = append(trials, trial{
				cell: i, result: workload.Result{
					Metrics: map[string]float64{"latency_p50": x, "transaction_rate": 1 / x, "loss": 0}, Window: 50 * time.Millisecond,
				},
				durations: [traffic.Quantities]*hdrhistogram.Histogram{h},
			})
		}
		facts := measure.BlockFacts{
			Generation: number, Block: s.blocks, Start: float64(s.blocks), Duration: 0.25, CPU: map[string]float64{"idle": 1},
		}
		s.measured += 250 * time.Millisecond
		if err := s.records.block(number, s.blocks, trials, facts, 0); err != nil {
			return err
		}
		s.blocks++
		m.blocks++
		m.after(m.blocks)
	}
	if err := s.records.endGroup(number, true); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return s.records.flush(true)
	}
	return s.finish(number, s.blocks-first, s.measured-measured, m.overhead)
}

// simulated is an experiment of requests over host, its twin and bridge, on one host.
func simulated(t *testing.T, limit time.Duration) *experiment.Resolved {
	t.Helper()
	e := neighbours(t).Experiment
	e.Workloads = e.Workloads[1:]
	e.Factors.Pairs, e.Design.Time, e.Design.Trial = []int{1}, limit, 50*time.Millisecond
	r, err := experiment.Resolve(e, mixParts(), 2)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// play runs a part of a run: from its beginning, or resumed, in which case the directory holds the past.
func play(t *testing.T, r *experiment.Resolved, dir string, m *simulation, again bool) *Outcome {
	t.Helper()
	if m.after == nil {
		m.after = func(int) {}
	}
	o := Options{Resolved: r, Dir: dir, Deployment: &labtest.Fake{}, perform: m.perform}
	if again {
		past, err := OpenPast(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := past.Fits(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.Past = past
	}
	out, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// recorded reads a run directory and analyzes it. Every line must be sealed.
func recorded(t *testing.T, dir string, run measure.Run) (*measure.Log, measure.Analysis) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, RecordsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, problems, err := measure.Read(f)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	return log, measure.Analyze(run, log)
}

// A run that was killed at any block, and one that was interrupted there, give when they are resumed what they would
// have given without: the same figures, verdicts, looks and end. No generation has the number, and so the seed, of
// another.
func TestResume(t *testing.T) {
	testnet.NotWithout(t)
	for name, tt := range map[string]struct {
		limit    time.Duration
		noise    float64
		differ   float64
		overhead time.Duration
		decided  bool
		why      string
		blocks   []int // in each of the first generations
	}{
		"until the time is up": {
			11 * time.Second, 0.05, 0, 0, false, measure.EndTime, []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4},
		},
		"until cells are precise": {
			time.Hour, 0.02, 0, 0, false, measure.EndPrecise, []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4},
		},
		"generations differ": {
			14 * time.Second, 0.02, 0.04, 500 * time.Millisecond, false, measure.EndTime,
			[]int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 6, 6, 4},
		},
		"until verdicts are decided": {
			time.Hour, 0.2, 0, 0, true, measure.EndDecided, []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := simulated(t, tt.limit)
			r.Experiment.Design.Decided = tt.decided
			whole := filepath.Join(t.TempDir(), "run")
			var killed []string
			// what a kill would leave: all that was flushed, and half a line
			simulate := func() *simulation {
				return &simulation{noise: tt.noise, differ: tt.differ, overhead: tt.overhead, used: map[int]bool{}}
			}
			m := simulate()
			m.after = func(n int) {
				dir := filepath.Join(t.TempDir(), fmt.Sprint(n))
				if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
					t.Fatal(err)
				}
				f, err := os.OpenFile(filepath.Join(dir, RecordsFile), os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteString(`{"type":"trial","v":3,"ge`); err != nil {
					t.Fatal(err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				killed = append(killed, dir)
			}
			out := play(t, r, whole, m, false)
			wantLog, want := recorded(t, whole, out.Run)
			if out.End.Why != tt.why || want.Generations < 6 || len(killed) != want.Blocks {
				t.Fatalf("it ended because %s after %d generations and %d blocks: this shows nothing", out.End.Detail,
					want.Generations, want.Blocks)
			}
			for i, g := range wantLog.Generations {
				if g.Generation != i+1 {
					t.Errorf("generation %d has the number %d", i+1, g.Generation)
				}
			}
			blocks := blocksOf(wantLog)
			if len(blocks) < len(tt.blocks) || !slices.Equal(blocks[:len(tt.blocks)], tt.blocks) {
				t.Errorf("blocks in generations: %v, want %v", blocks, tt.blocks)
			}
			check := func(how, dir string, m *simulation, resumed int) {
				t.Helper()
				log, got := recorded(t, dir, out.Run)
				if d := cmp.Diff(want.Rows, got.Rows, cmpopts.EquateNaNs()); d != "" {
					t.Errorf("%s: rows (-whole +resumed):\n%s", how, d)
				}
				if d := cmp.Diff(wantLog.End, log.End, cmpopts.IgnoreFields(measure.End{}, "Resumed")); d != "" ||
					log.End.Resumed != resumed || len(log.Resumes) != resumed {
					t.Errorf("%s: resumed %d times, with %d records, want %d; end:\n%s", how, log.End.Resumed, len(log.Resumes),
						resumed, d)
				}
				if got.Blocks != want.Blocks || got.Generations != want.Generations || len(m.twice) > 0 {
					t.Errorf("%s: %d blocks in %d generations, want %d in %d; numbers used twice: %v", how, got.Blocks,
						got.Generations, want.Blocks, want.Generations, m.twice)
				}
				if got := blocksOf(log); !slices.Equal(got, blocks) {
					t.Errorf("%s: blocks in generations: %v, want %v", how, got, blocks)
				}
			}
			for i, dir := range killed {
				again := simulate()
				log, _, err := readRecords(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range log.Trials {
					again.used[x.Generation] = true
				}
				play(t, r, dir, again, true)
				check(fmt.Sprintf("killed in block %d", i+1), dir, again, 1)
			}
			// Interrupted again and again.
			dir := filepath.Join(t.TempDir(), "often")
			often := simulate()
			parts := 0
			for ; ; parts++ {
				ctx, cancel := context.WithCancel(t.Context())
				often.blocks = 0
				often.after = func(n int) {
					if n == 7 {
						cancel()
					}
				}
				o := Options{Resolved: r, Dir: dir, Deployment: &labtest.Fake{}, perform: often.perform}
				if parts > 0 {
					past, err := OpenPast(dir)
					if err != nil {
						t.Fatal(err)
					}
					o.Past = past
				}
				out, err := Run(ctx, o)
				cancel()
				if err != nil {
					t.Fatal(err)
				}
				if !out.Interrupted {
					break
				}
				if out.End.Why != measure.EndInterrupted {
					t.Errorf("part %d ended because %s", parts, out.End.Detail)
				}
				if parts > 3*want.Blocks {
					t.Fatal("it does not get on")
				}
			}
			if parts < 3 {
				t.Errorf("interrupted %d times: this shows little", parts)
			}
			check("interrupted again and again", dir, often, parts)
		})
	}
}

// blocksOf returns how many blocks each complete generation has.
func blocksOf(log *measure.Log) []int {
	var n []int
	for _, g := range log.Generations {
		n = append(n, g.Blocks)
	}
	return n
}

func readRecords(dir string) (*measure.Log, []measure.Problem, error) {
	f, err := os.Open(filepath.Join(dir, RecordsFile))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return measure.Read(f)
}

// What cannot be gone on with is refused, and every difference is named.
func TestResumeRefuses(t *testing.T) {
	r := simulated(t, 3*time.Second)
	start := func(interrupted bool) string {
		dir := filepath.Join(t.TempDir(), "run")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		m := &simulation{noise: 0.05, used: map[int]bool{}, after: func(n int) {
			if interrupted && n == 6 {
				cancel()
			}
		}}
		if _, err := Run(ctx, Options{
			Resolved: r, Dir: dir, Deployment: &labtest.Fake{}, perform: m.perform, Versions: map[string]string{"nettoll": "v1"},
		}); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	edit := func(dir, name, from, to string) {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(b), from) {
			t.Fatal(from, err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(b), from, to, 1)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(dir, says string) {
		t.Helper()
		p, err := OpenPast(dir)
		if err == nil {
			_ = p.Close()
		}
		if !errors.Is(err, ErrNotResumable) || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one that says %q", err, says)
		}
	}
	refused(start(false), "it has ended, because the time is up")
	dir := start(true)
	edit(dir, RecordsFile, `"latency_p50":1`, `"latency_p50":2`)
	refused(dir, "its records were changed: lines ")
	dir = start(true)
	edit(dir, RunFile, `"precision": 0.02`, `"precision": 0.2`)
	refused(dir, "run.json was changed")
	refused(t.TempDir(), "no such file")
	refused(filepath.Join("..", "report", "view", "testdata", "v1-killed"), "its records have version 1")
	refused(filepath.Join("..", "report", "view", "testdata", "v2-interrupted"), "its records have version 2, and this "+
		"nettoll writes version 3 (hint: ")

	dir = start(true)
	p, err := OpenPast(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenPast(dir); !errors.Is(err, ErrTaken) {
		t.Errorf("a run that somebody else resumes: %v, want ErrTaken", err)
	}
	e, err := p.Experiment()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r.Experiment, e, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("the experiment is read otherwise than it was written:\n%s", d)
	}
	if err := p.Fits(t.Context(), Options{Resolved: r, Deployment: &labtest.Fake{}, Versions: map[string]string{"nettoll": "v1"}}); err != nil {
		t.Error(err)
	}
	p.Run.Facts["kernel"] = "5.4.0-old"
	other := simulated(t, 4*time.Second)
	err = p.Fits(t.Context(), Options{Resolved: other, Deployment: &labtest.Fake{}, Versions: map[string]string{"nettoll": "v2"}})
	if !errors.Is(err, ErrNotResumable) {
		t.Fatal(err)
	}
	for _, want := range []string{
		`versions.nettoll: "v1" then, "v2" now`, "experiment.design.time: 3000000000 then, 4000000000 now",
		`facts.kernel: "5.4.0-old" then, `,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not name %q:\n%v", want, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// A lab that is lost in one generation is built anew with the next one. One that is lost in three generations one after
// another is not measured any more, also when the run was resumed in between.
func TestLostLabs(t *testing.T) {
	r := simulated(t, 10*time.Second)
	bridge := len(r.Labs) - 1
	for name, tt := range map[string]struct {
		lost    []int // ordinal numbers of generations
		dropped int   // in which it is given up; -1: in none
	}{
		"now and then": {[]int{0, 2, 3, 5}, -1},
		"for good":     {[]int{0, 2, 3, 4}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			m := &simulation{noise: 0.05, used: map[int]bool{}, after: func(int) {}}
			parts := 0
			for ; ; parts++ {
				ctx, cancel := context.WithCancel(t.Context())
				o := Options{
					Resolved: r, Dir: dir, Deployment: &labtest.Fake{},
					perform: func(of context.Context, s *scheduler, number, blocks int, must bool) error {
						k := len(s.records.log.Generations)
						if slices.Contains(tt.lost, k) {
							s.lost[bridge] = "its host burnt down"
						}
						err := m.perform(of, s, number, blocks, must)
						if k == 3 && parts == 0 {
							cancel()
						}
						return err
					},
				}
				if parts > 0 {
					past, err := OpenPast(dir)
					if err != nil {
						t.Fatal(err)
					}
					o.Past = past
				}
				out, err := Run(ctx, o)
				cancel()
				if err != nil {
					t.Fatal(err)
				}
				if !out.Interrupted {
					if (len(out.Dropped) > 0) != (tt.dropped >= 0) {
						t.Errorf("dropped: %v", out.Dropped)
					}
					break
				}
			}
			log, _, err := readRecords(dir)
			if err != nil {
				t.Fatal(err)
			}
			for k, g := range log.Generations {
				if want := slices.Contains(tt.lost, k); (len(g.Lost) > 0) != want {
					t.Errorf("generation %d has lost %v, want %v", k, g.Lost, want)
				}
				if (len(g.Dropped) > 0) != (k == tt.dropped) {
					t.Errorf("generation %d has dropped %v", k, g.Dropped)
				}
			}
			if parts != 1 || len(log.Generations) < 5 {
				t.Errorf("%d interruptions, %d generations: this shows nothing", parts, len(log.Generations))
			}
		})
	}
}

// A look says the number of blocks that follows, and the figures behind it.
func TestLookSaysWhy(t *testing.T) {
	m := &simulation{
		noise: 0.02, differ: 0.04, overhead: 500 * time.Millisecond, used: map[int]bool{}, after: func(int) {},
	}
	var said []string
	if _, err := Run(t.Context(), Options{
		Resolved: simulated(t, 6*time.Second), Deployment: &labtest.Fake{}, perform: m.perform,
		Log: func(line string) { said = append(said, line) },
	}); err != nil {
		t.Fatal(err)
	}
	const want = "blocks each: a generation takes 0.5 s besides its blocks, a block 0.25 s; the standard deviation between " +
		"generations is "
	if !slices.ContainsFunc(said, func(line string) bool {
		return strings.Contains(line, want) && strings.HasSuffix(line, " times that of blocks (median of 1 cell)")
	}) {
		t.Errorf("no line with %q in\n%s", want, strings.Join(said, "\n"))
	}
}

// The run of another user is not resumed, and none with a file, or a link in its place, that is another user's.
func TestResumeOfAnotherUser(t *testing.T) {
	testnet.Root(t)
	const stranger = 4242
	for _, name := range []string{".", RunFile, RecordsFile} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		err := errors.Join(os.WriteFile(filepath.Join(dir, RunFile), []byte("{}"), 0o600),
			os.Symlink("elsewhere", filepath.Join(dir, RecordsFile)), os.Lchown(path, stranger, stranger))
		if err != nil {
			t.Fatal(err)
		}
		_, err = OpenPast(dir)
		if want := strconv.Quote(path) + " belongs to another user"; !errors.Is(err, ErrNotResumable) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want that %s", name, err, want)
		}
	}
}
