package control

import (
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/clock"
)

// sleepLimit is for what share of the time CPUs that are kept awake may sleep before the reader must know.
const sleepLimit = 0.05

// wake keeps the CPUs of a deployment awake during the trials of those cells that ask for it, and from one of these to
// the next until there is another.
type wake struct {
	deployment deploy.Deployment
	why        string // CPUs cannot be kept awake; "" if they can, or if no cell asks for it

	end           func() (float64, error) // nil while CPUs may sleep
	began         int64
	awake, asleep time.Duration // sums over all stretches
	unknown       error         // why it is not known how long they slept; nil if it is
}

// newWake finds out whether the CPUs can be kept awake. The error says why not, if a cell must have them so.
func newWake(d deploy.Deployment, cells []experiment.Cell) (*wake, error) {
	asked := func(kind string) bool {
		return slices.ContainsFunc(cells, func(c experiment.Cell) bool { return c.Idle == kind })
	}
	w := &wake{deployment: d}
	if !asked(experiment.IdleAuto) && !asked(experiment.IdleAwake) {
		return w, nil
	}
	err := w.up()
	if err == nil {
		w.sleep()
		err, w.unknown = w.unknown, nil
		w.awake, w.asleep = 0, 0
	}
	switch {
	case err == nil:
		return w, nil
	case asked(experiment.IdleAwake):
		return nil, fmt.Errorf("idle=%s: %w; or leave idle at %s", experiment.IdleAwake, err, experiment.IdleAuto)
	}
	w.why = err.Error()
	return w, nil
}

// of returns whether the CPUs sleep in trials of a cell: [experiment.IdleAwake] or [experiment.IdleDeep].
func (w *wake) of(c experiment.Cell) string {
	if c.Idle == experiment.IdleDeep || c.Idle == experiment.IdleAuto && w.why != "" {
		return experiment.IdleDeep
	}
	return experiment.IdleAwake
}

// up keeps them awake, if it does not already.
func (w *wake) up() (err error) {
	if w.end == nil {
		w.end, err = w.deployment.Awake()
		w.began = clock.Now()
	}
	return err
}

// sleep lets them sleep, if they were kept awake.
func (w *wake) sleep() {
	if w.end == nil {
		return
	}
	asleep, err := w.end()
	w.end = nil
	took := time.Duration(clock.Now() - w.began)
	w.awake += took
	w.asleep += time.Duration(asleep * float64(took))
	if err != nil {
		w.unknown = err
	}
}

// doubt says that CPUs slept though they were to stay awake, or that they could not be kept so while threads of some
// cell wait without spinning; "" if neither.
func (w *wake) doubt(cells []experiment.Cell) string {
	waits := func(c experiment.Cell) bool {
		return c.Idle == experiment.IdleAuto && !c.Workload.Describe().Spins(c.Params)
	}
	switch {
	case w.unknown != nil:
		return fmt.Sprintf("CPUs were to stay awake, and whether they did is not known: %v; see with cpupower idle-info "+
			"which idle states they take", w.unknown)
	case w.awake > 0 && float64(w.asleep) > sleepLimit*float64(w.awake):
		return fmt.Sprintf("CPUs were to stay awake and slept %.0f %% of the time, so that latencies contain waking "+
			"them up; see with cpupower idle-info which idle state they took",
			100*float64(w.asleep)/float64(w.awake))
	case w.why != "" && slices.ContainsFunc(cells, waits):
		return "latencies contain waking CPUs up: " + w.why
	}
	return ""
}
