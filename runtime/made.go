package runtime

import (
	"crypto/rand"
	"strings"

	"github.com/nettoll/nettoll/host"
)

// Made is what the step of a container with a worker keeps.
type Made struct {
	// Cgroup is its control group, from the roots of all hierarchies. It outlives the host.
	Cgroup string `json:"cgroup"`
	// PID is that of the worker on its host; 0 before it was started.
	PID int `json:"pid,omitempty"`
}

// NewMade returns that of a container whose control group nobody else has.
func NewMade() Made { return Made{Cgroup: "nettoll-" + strings.ToLower(rand.Text())} }

// Verify wants the worker that a step has made to be there, in the network namespace of its container.
func Verify(k *host.Kernel, step host.Step, container, namespace string) error {
	var m Made
	if _, err := k.Kept(&m); err != nil {
		return err
	}
	d := &host.DriftError{Step: step.String()}
	present, within, err := k.Within(m.PID, namespace)
	switch {
	case err != nil:
		return err
	case !present:
		d.Add("worker of "+container, "present", "absent")
	case !within:
		d.Add("network namespace of the worker of "+container, "that of the container", "another")
	default:
		return nil
	}
	return d
}
