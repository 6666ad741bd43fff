package probetest

import (
	"encoding/binary"
	"errors"
	"os"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/workload"
)

// Fake is a probe that counts how often it was switched on, in a file. It needs no kernel.
type Fake struct{}

var _ probe.Probe = Fake{}

// Describe implements [probe.Probe].
func (Fake) Describe() probe.Description {
	return probe.Description{
		Name: "fake", Summary: "how often it was switched on", Needs: "nothing", Choice: "a counter",
		Implementation: "userspace", Switches: "a counter",
		Metrics: []measure.Metric{{
			Name: "fake_count", Unit: measure.UnitMessage, Better: measure.Neither, Kind: measure.KindCount, Order: 605,
			Summary: "how often the probe was switched on",
		}},
		View: func(map[string]any) measure.Probe {
			return measure.Probe{
				Name: "fake", Title: "Fake counts", Switches: "a counter", Meaning: "Given is how often it was switched on",
				Metrics: []string{"fake_count"}, Columns: []string{"count"},
			}
		},
	}
}

// Load implements [probe.Probe].
func (Fake) Load() (probe.Loaded, error) {
	f, err := os.CreateTemp("", "nettoll-fake-probe")
	if err != nil {
		return nil, err
	}
	return &loaded{file: f}, errors.Join(os.Remove(f.Name()), f.Truncate(word))
}

const word = 8 // bytes

// loaded counts in a file that has been unlinked.
type loaded struct {
	file *os.File
	on   bool
}

func (l *loaded) On() error {
	if l.on {
		return nil
	}
	l.on = true
	var b [word]byte
	if _, err := l.file.ReadAt(b[:], 0); err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(b[:], binary.LittleEndian.Uint64(b[:])+1)
	_, err := l.file.WriteAt(b[:], 0)
	return err
}

func (l *loaded) Off() error {
	l.on = false
	return nil
}

// File implements [probe.Loaded]. It opens the file again.
func (l *loaded) File() (*os.File, error) { return os.Open("/proc/self/fd/" + number(l.file)) }

func (l *loaded) Close() error {
	if err := l.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Open implements [probe.Probe].
func (Fake) Open(f *os.File, _ []int) (func() int64, error) {
	b := make([]byte, word)
	return func() int64 {
		if _, err := f.ReadAt(b, 0); err != nil {
			return 0
		}
		return int64(binary.LittleEndian.Uint64(b))
	}, nil
}

// Put implements [probe.Probe].
func (Fake) Put(metrics map[string]float64, _ workload.Trial, counted int64) {
	metrics["fake_count"] = float64(counted)
}
