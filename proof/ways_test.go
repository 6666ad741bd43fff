package proof

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nettoll/nettoll/host"
)

// A plain wire is one on which everything can be read, although it should not.
type plain struct{}

func (plain) Text() string   { return "packets between hosts are hidden" }
func (plain) Hidden() string { return "nothing can be read" }
func (plain) Layers() string { return "" }
func (plain) Heard(frames []host.Frames) (wrong, leak error) {
	for _, f := range frames {
		if f.Marked > 0 {
			leak = errors.New("a frame can be read")
		}
	}
	return nil, leak
}

// A lenient plan takes any counters.
type lenient struct{ Plan }

func (lenient) Next([]host.Trace) error                         { return nil }
func (lenient) Beyond(_, _ []host.Trace, _ time.Duration) error { return nil }
func (lenient) Counted(_, _ []host.Trace, _, _ []int64) (missing, excess error) {
	return nil, nil
}

// What can be read in the first packets between hosts refutes the next claim that nothing can, and not the one after
// it. Those packets are sent whether or not somebody listens.
func TestFirstPackets(t *testing.T) {
	for _, c := range []struct {
		name       string
		encrypted  bool // what carries them is
		deaf       bool // nobody can listen
		wire       Wire
		want, mark string // a part of the leak; whether there is a mark
	}{
		{name: "hidden", encrypted: true, wire: plain{}, mark: "some"},
		{name: "read", wire: plain{}, want: "first packets: a frame can be read", mark: "some"},
		{name: "nobody listens", deaf: true, wire: plain{}, want: "first packets: not tried: no tap", mark: "none"},
		{name: "one host", mark: "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var air, listening []byte
			tracer := func(_ context.Context, _ bool, mark []byte, _ bool) ([]host.Trace, error) {
				if c.deaf {
					return nil, errors.New("no tap")
				}
				n := 0
				if listening != nil && bytes.Contains(air, listening) {
					n = 1
				}
				listening, air = mark, nil
				return []host.Trace{{Frames: []host.Frames{{Marked: n}}}}, nil
			}
			w := NewWays(lenient{}, c.wire, nil, tracer)
			sent := 0
			w.First(t.Context(), func(mark []byte) {
				if sent++; !c.encrypted {
					air = append([]byte("nettoll"), mark...)
				}
				if got := map[bool]string{true: "some", false: "none"}[mark != nil]; got != c.mark {
					t.Errorf("a mark: %s, want %s", got, c.mark)
				}
			})
			if sent != 1 {
				t.Errorf("sent %d times", sent)
			}
			if c.wire == nil {
				return
			}
			c.deaf = false
			for i, want := range []string{c.want, ""} {
				if err := w.begin(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, wrong, _ := w.end(t.Context(), nil, nil); wrong != nil {
					t.Fatal(wrong)
				}
				said := ""
				if w.leak != nil {
					said = w.leak.Error()
				}
				if !strings.Contains(said, want) || want == "" && said != "" {
					t.Errorf("proof %d: leak %q, want %q", i, said, want)
				}
			}
		})
	}
}

// A counting plan finds too many packets as often as it says.
type counting struct {
	lenient
	excesses int
}

func (c *counting) Beyond(_, _ []host.Trace, _ time.Duration) error {
	if c.excesses--; c.excesses >= 0 {
		return errors.New("counted more than was sent")
	}
	return nil
}

// What was counted too much before a proof may be acknowledgements that passed while hosts were read, one after
// another: the counters are read once more after those are due. What is still there refutes the path.
func TestReadAgain(t *testing.T) {
	for excesses, want := range []struct {
		holds bool
		read  int
	}{{true, 1}, {true, 2}, {false, 2}} {
		synctest.Test(t, func(t *testing.T) {
			read, began := 0, time.Now()
			plan := &counting{}
			w := NewWays(plan, nil, nil, func(context.Context, bool, []byte, bool) ([]host.Trace, error) {
				read++
				return []host.Trace{}, nil
			})
			if err := w.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, wrong, excess := w.end(t.Context(), nil, nil); wrong != nil || excess != nil {
				t.Fatal(wrong, excess)
			}
			plan.excesses, read = excesses, 0
			err := w.begin(t.Context())
			if (err == nil) != want.holds || read != want.read {
				t.Errorf("%d times too many: %v after %d readings, want %+v", excesses, err, read, want)
			}
			if took := time.Since(began); (took > 0) != (want.read > 1) || took > 0 && took < 200*time.Millisecond {
				t.Errorf("%d times too many: read again after %v", excesses, took)
			}
		})
	}
}
