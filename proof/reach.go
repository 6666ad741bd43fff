package proof

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof/busy"
)

// A Survey is how [Reach] tries who reaches whom.
type Survey struct {
	// Open opens a network namespace of a host, counted from 0, by its name; "" is the host's own. The underlay comes
	// behind the last host. The file is the caller's to close. If it is nil, hosts cannot be entered, and parties send and
	// hear.
	Open func(host int, namespace string) (*os.File, error)
	// Party returns who sends and hears for a container if hosts cannot be entered.
	Party func(c Container) Party
	// First, if not nil, is called with what sends the first packets between hosts, with a mark in each that may be nil.
	First func(send func(mark []byte))
	// Budget is how long it may take. The ways between pairs are tried however long that takes; 0: everything is.
	Budget time.Duration
	// Seed and Turn choose what is tried where there is not time for all. Turns count from 0.
	Seed uint64
	Turn int
}

const (
	// quiet is for how long nothing may arrive until no more is waited for, lastly how long that is waited for at most.
	quiet, lastly = 20 * time.Millisecond, 120 * time.Millisecond
	// glance is how often it is looked for what has arrived.
	glance = 500 * time.Microsecond
	// together is how many packets are sent until it is looked for what has arrived: sockets have room for more, also
	// those of who may not ask for much.
	together = 128
	// worded is how many differences are said in words.
	worded = 12
)

// ErrShared says that the containers of a lab share the namespace of their host: nobody stands between them, and there
// is nothing to try.
var ErrShared = errors.New("containers share the namespace of their host, so nothing separates them")

// Reach tries who reaches whom in a lab, with packets of its own that are counted where they arrive: at sockets of
// containers and hosts, behind every filter on their way. It takes nothing that a workload uses: ports of proofs, ports
// that nobody has, and no flow that exists. What could not be tried is said in the matrix.
func Reach(ctx context.Context, l Lab, how Survey) measure.Matrix {
	began := time.Now()
	r := &reaching{matrix: newMatrix(l, how.Turn, how.Budget == 0), Survey: how, began: began}
	out := measure.Matrix{Filtered: l.Filtered}
	r.ends = &entered{reaching: r}
	if how.Open == nil {
		r.ends = &called{reaching: r}
	}
	err := r.begin(ctx)
	if err == nil {
		err = r.try(ctx)
	}
	r.ends.close(ctx)
	if r.failed = err; err != nil && !r.shot {
		out.NotTried = err.Error()
	} else {
		r.sum(&out)
	}
	out.Took = time.Since(began).Seconds()
	return out
}

// ends send and hear the tries of a matrix.
type ends interface {
	// open opens what all members send and hear by. What these cannot try, [matrix.omit] leaves out from then on.
	open(ctx context.Context) error
	// greet is called once, before the first try. Its packets have a mark, which may be nil.
	greet(ways []way, mark []byte)
	// together returns how many of these ways are tried at once, one at least, and after how long the last packets of a
	// matrix have been waited for.
	together(ways []way) int
	after() time.Duration
	// send sends tries, by their numbers. It notes those that cannot be sent.
	send(ctx context.Context, numbers []int) error
	// settle notes what has arrived, until nothing arrives any more or, if tries are given, until those have arrived.
	settle(ctx context.Context, until []int) error
	// inLine says whether packets may wait for those that were sent before. Then what must arrive is sent last (see
	// [matrix.closes]): when it has arrived, what was sent before has been judged.
	inLine() bool
	// await waits for tries that must arrive and may still wait somewhere.
	await(ctx context.Context, until []int) error
	// excused says whether a packet may have been lost although nobody has refused it.
	excused() bool
	close(ctx context.Context)
}

// reaching is a matrix that is being tried.
type reaching struct {
	*matrix
	Survey
	ends   ends
	began  time.Time
	magic  [8]byte
	sent   []probe
	came   map[int][]int // by the number of a probe: at whom it arrived
	untold map[int]bool  // probes that could not be sent
	why    error         // of the first of them
	unsent map[int]bool  // those that the rights of their container refused
	shot   bool          // something was sent
	failed error         // the tries were given up: what has not arrived may still have been let through
	// doubted are those that arrived or did not, and the counters of their receivers say otherwise; doubts are the words.
	doubted map[int]bool
	doubts  []string
	of      map[string]int
}

// begin opens the ends.
func (r *reaching) begin(ctx context.Context) error {
	for _, c := range r.containers {
		if c.Namespace == "" {
			return ErrShared
		}
	}
	_, _ = rand.Read(r.magic[:]) // it never fails (crypto/rand)
	r.came, r.untold, r.unsent, r.of = map[int][]int{}, map[int]bool{}, map[int]bool{}, map[string]int{}
	return r.ends.open(ctx)
}

// try sends the tries, and waits until nothing arrives any more.
func (r *reaching) try(ctx context.Context) error {
	ways, must := r.ways(r.Seed)
	if len(ways) == 0 {
		return errors.New("the lab has one container, so there is nobody to reach")
	}
	if r.First == nil {
		r.ends.greet(ways, nil)
	} else {
		r.First(func(mark []byte) { r.ends.greet(ways, mark) })
	}
	limit := r.Budget - r.ends.after()
	round := time.Duration(0) // how long the last one has taken
	var closing []int         // those that are sent last
	for i := 0; i < len(ways); {
		began := time.Now()
		if i >= must && !r.complete && began.Sub(r.began)+round > limit {
			r.count(ways[i:])
			break
		}
		if err := ctx.Err(); err != nil {
			r.count(ways[i:])
			return fmt.Errorf("interrupted: %w", err)
		}
		first, n := len(r.sent), r.ends.together(ways[i:])
		for _, w := range ways[i : i+n] {
			for _, v6 := range []bool{false, true} {
				list, all := r.probes(w, v6)
				r.of[family(v6)] += all
				r.sent = append(r.sent, list...)
			}
		}
		var numbers []int
		for k := first; k < len(r.sent); k++ {
			if r.ends.inLine() && r.closes(r.sent[k]) {
				closing = append(closing, k)
			} else {
				numbers = append(numbers, k)
			}
		}
		r.shot = r.shot || len(numbers) > 0
		if err := r.ends.send(ctx, numbers); err != nil {
			r.count(ways[i+n:])
			return err
		}
		i, round = i+n, time.Since(began)
	}
	if len(closing) > 0 {
		r.shot = true
		if err := r.ends.send(ctx, closing); err != nil {
			return err
		}
	}
	if err := r.ends.settle(ctx, closing); err != nil {
		return err
	}
	// what must arrive is sent once more only if packets get lost on the way, or other work is to blame
	for range busy.Again {
		missing := r.missing()
		if len(missing) == 0 || !r.Patience.Lossy && !r.ends.excused() {
			break
		}
		if err := r.ends.send(ctx, missing); err != nil {
			return err
		}
		if err := r.ends.settle(ctx, missing); err != nil {
			return err
		}
	}
	if missing := r.missing(); len(missing) > 0 && !r.Patience.Lossy {
		return r.ends.await(ctx, missing)
	}
	return nil
}

// count counts the tries that are left out.
func (r *reaching) count(ways []way) {
	for _, w := range ways {
		for _, v6 := range []bool{false, true} {
			r.of[family(v6)] += r.size(w, v6)
		}
	}
}

func family(v6 bool) string {
	if v6 {
		return "ipv6"
	}
	return "ipv4"
}

// missing are the numbers of those that must arrive and did not.
func (r *reaching) missing() (list []int) {
	for n, p := range r.sent {
		if p.expect == due && !r.unsent[n] && !slices.Contains(r.came[n], p.to) {
			list = append(list, n)
		}
	}
	return list
}

// note notes that a probe has arrived at a member, and says whether that is new.
func (r *reaching) note(n, at int) bool {
	if at == r.sent[n].from || slices.Contains(r.came[n], at) { // what comes back to its sender is an answer
		return false
	}
	r.came[n] = append(r.came[n], at)
	return true
}

// sum writes what came of the tries.
func (r *reaching) sum(out *measure.Matrix) {
	out.To, out.Untried = r.names(), r.omitted
	out.From = out.To[:len(r.containers):len(r.containers)]
	out.Tried, out.Of, out.Arrived = map[string]int{}, r.of, map[string]int{}
	unknown, untold, swallowed := map[string]int{}, map[string]bool{}, 0
	cells := map[string][][]byte{}
	for _, v6 := range []bool{false, true} {
		for range out.From {
			cells[family(v6)] = append(cells[family(v6)], bytes.Repeat([]byte{byte(measure.ReachNotTried)}, len(out.To)))
		}
	}
	for n, p := range r.sent {
		lost := r.failed != nil && len(r.came[n]) == 0 && !r.unsent[n] // it may have been about to arrive
		if !lost {
			out.Tried[family(p.ipv6)]++
		}
		if len(r.came[n]) > 0 {
			out.Arrived[p.kind.name()]++
		}
		reach, leaks := r.judge(p, r.came[n])
		switch {
		case r.unsent[n]:
			reach = measure.ReachUnsent
			if out.Unsent == nil {
				out.Unsent = map[string]int{}
			}
			out.Unsent[family(p.ipv6)]++
			if what := p.what(); !slices.Contains(out.UnsentKinds, what) {
				out.UnsentKinds = append(out.UnsentKinds, what)
			}
		case reach == measure.ReachLeak:
			out.LeaksAll++
			out.Leaks = append(out.Leaks, leaks[:min(len(leaks), worded-len(out.Leaks))]...)
		case lost, r.untold[n], r.doubted[n], reach == measure.ReachMissing && r.Patience.Lossy:
			switch {
			case lost:
			case !r.untold[n] && !r.doubted[n]:
				swallowed++
				fallthrough
			default:
				unknown[family(p.ipv6)]++
			}
			reach, untold[p.claim()] = measure.ReachUntold, true
		case reach == measure.ReachMissing:
			out.MissingAll++
			if len(out.Missing) < worded {
				out.Missing = append(out.Missing, r.text(p)+" is on the list and does not arrive")
			}
		}
		cell := &cells[family(p.ipv6)][p.from][p.to]
		*cell = byte(measure.Reach(*cell).Worse(reach))
	}
	maps.DeleteFunc(out.Of, func(_ string, n int) bool { return n == 0 })
	out.Cells = map[string][]string{}
	for f, rows := range cells {
		if out.Tried[f] == 0 && r.failed == nil {
			continue
		}
		for _, row := range rows {
			out.Cells[f] = append(out.Cells[f], string(row))
		}
	}
	why := r.doubts
	if r.failed != nil {
		why = append(why, "the tries were given up: "+r.failed.Error())
		untold[measure.MatrixLeaks], untold[measure.MatrixListed] = true, true
	}
	if len(r.untold) > 0 {
		why = append(why, fmt.Sprintf("%d packets were not sent, the first one because: %v", len(r.untold), r.why))
	}
	if swallowed > 0 {
		why = append(why, fmt.Sprintf("%d packets that are on the list did not arrive, and packets get lost on the way",
			swallowed))
	}
	if out.Untold = strings.Join(why, "; "); len(unknown) > 0 {
		out.Unknown = unknown
	}
	out.UntoldClaims = slices.Sorted(maps.Keys(untold))
}
