package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/detour"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// A Shape limits the rate of an existing link, delays its packets or drops some of them. Undoing it restores the former
// queue.
//
// The kernel's queueing discipline netem delays and drops packets. If the kernel does not have it, a process does that
// to the frames that the far end receives, see package detour.
type Shape struct {
	NS   string `json:"ns,omitempty"`
	Name string `json:"name"`
	// Port is the receiving link in the plan's own namespace for the packets to delay. It is the far end of a link in
	// NS, or the link itself.
	Port string `json:"port,omitempty"`
	// Rate in bit/s of Ethernet frames; 0 leaves it unchanged. See [link.Shape].
	Rate int64 `json:"rate,omitempty"`
	// Delay is how much later each packet leaves, plus or minus Jitter.
	Delay  time.Duration `json:"delay,omitempty"`
	Jitter time.Duration `json:"jitter,omitempty"`
	// Loss is the share of dropped packets, from 0 to 1.
	Loss float64 `json:"loss,omitempty"`
	// MTU of the link in bytes.
	MTU int `json:"mtu"`
}

// Kind returns "shape".
func (Shape) Kind() string { return "shape" }

// String describes the step in plain words.
func (s Shape) String() string {
	var parts []string
	if s.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%g Mbit/s", float64(s.Rate)/1e6))
	}
	if s.Jitter > 0 {
		parts = append(parts, fmt.Sprintf("%v ± %v later", s.Delay, s.Jitter))
	} else if s.Delay > 0 {
		parts = append(parts, fmt.Sprintf("%v later", s.Delay))
	}
	if s.Loss > 0 {
		parts = append(parts, fmt.Sprintf("%g %% lost", 100*s.Loss))
	}
	return "shape of " + at(s.Name, s.NS) + ": " + strings.Join(parts, ", ")
}

// Reaches returns the namespace of the link.
func (s Shape) Reaches() []string { return []string{s.NS} }

func (s Shape) shape() link.Shape {
	return link.Shape{Rate: s.Rate, Delay: s.Delay, Jitter: s.Jitter, Loss: s.Loss, MTU: s.MTU}
}

// late reports whether the shape does more than limit the rate.
func (s Shape) late() bool { return s.Delay > 0 || s.Loss > 0 }

// rest returns the part of a shape that the link still does if a process delays its packets: the rate.
func (s Shape) rest() link.Shape { return link.Shape{Rate: s.Rate, MTU: s.MTU} }

// Check returns an error if neither this kernel nor a process can shape links like this. It changes nothing.
func (s Shape) Check() error {
	err := link.CheckShape(s.shape())
	if !s.late() || s.Port == "" || !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if other := detour.Check(); other != nil {
		return fmt.Errorf("%w; %w", err, other)
	}
	if s.Rate > 0 {
		return link.CheckShape(s.rest())
	}
	return nil
}

// shapeWas holds the former queue of a link that a [Shape] changed, and the process that it has started.
type shapeWas struct {
	Index    int              `json:"index"`
	Queue    link.Queue       `json:"queue"`
	Process  Process          `json:"process,omitzero"` // zero if the kernel delays
	Attached []bpf.Attachment `json:"attached,omitempty"`
}

// Apply shapes the link and saves its former queue.
func (s Shape) Apply(_ context.Context, k *Kernel) error {
	_, h, err := k.inside(s.NS)
	if err != nil {
		return err
	}
	l, err := h.ByName(s.Name)
	if err != nil {
		return err
	}
	found, err := h.Queue(l.Index)
	if err != nil {
		return err
	}
	was := shapeWas{Index: l.Index, Queue: found}
	undo := func(err error) error { return errors.Join(err, h.PutQueue(l.Index, found)) }
	err = h.SetShape(l.Index, s.shape())
	if s.late() && s.Port != "" && errors.Is(err, errors.ErrUnsupported) {
		return s.detour(k, h, was)
	}
	if err != nil {
		return err
	}
	if err := k.Keep(was); err != nil {
		return undo(err)
	}
	if s.late() {
		k.Implementation(underlayKind, "kernel (netem)")
	}
	return nil
}

// underlayKind is the key in reports for who delays packets between hosts.
const underlayKind = "underlay"

// detour starts a process that delays the frames, and makes the kernel limit their rate.
func (s Shape) detour(k *Kernel, h *link.Handle, was shapeWas) (err error) {
	if s.Rate > 0 {
		if err := h.SetShape(was.Index, s.rest()); err != nil {
			return err
		}
	}
	var held io.Closer
	defer func() {
		if err != nil {
			if held != nil {
				err = errors.Join(err, held.Close())
			}
			err = errors.Join(err, s.remove(k, was))
		}
	}()
	tap := detour.Name(s.Port)
	r, err := k.Start(Program{
		Name: s.program(), Self: true, Control: true,
		Args: append([]string{DaemonCommand, delayDaemon},
			detour.Args(tap, s.MTU, detour.Fate{Delay: s.Delay, Jitter: s.Jitter, Loss: s.Loss})...),
	})
	if err != nil {
		return err
	}
	was.Process = r.Process()
	if err := r.Await(shapeStart); err != nil {
		return err
	}
	if err := k.Do("", func() (err error) {
		was.Attached, held, err = detour.Add(s.Port, tap)
		return err
	}); err != nil {
		return err
	}
	if err := errors.Join(k.Keep(was), k.Hold(held)); err != nil {
		return err
	}
	k.Implementation(underlayKind, "nettoll (a process in the place of netem, which this kernel lacks)")
	return nil
}

// program is the name of the process.
func (s Shape) program() string { return delayDaemon + "-" + s.Port }

const (
	// delayDaemon is the role of the process, see [Daemons].
	delayDaemon = "delay"
	// shapeGrace is how long the process has to end, and shapeStart how long it has to begin.
	shapeGrace = 2 * time.Second
	shapeStart = 10 * time.Second
)

// Daemons returns the roles of this program that steps of this package need.
func Daemons() map[string]Daemon { return map[string]Daemon{delayDaemon: detour.Serve} }

// Remove restores the former queue, and ends the process.
func (s Shape) Remove(_ context.Context, k *Kernel) error {
	var was shapeWas
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	return s.remove(k, was)
}

func (s Shape) remove(k *Kernel, was shapeWas) error {
	var errs []error
	if was.Process.PID != 0 {
		errs = append(errs, k.Do("", func() error { return bpf.Detach(was.Attached) }), k.Stop(was.Process, shapeGrace))
		if s.Rate == 0 {
			return errors.Join(errs...) // the queue stays as it is
		}
	}
	return errors.Join(append(errs, s.restore(k, was))...)
}

// restore gives the link its former queue.
func (s Shape) restore(k *Kernel, was shapeWas) error {
	_, h, stands, err := k.standing(s.NS)
	if !stands {
		return err
	}
	if l, err := h.ByIndex(was.Index); errors.Is(err, link.ErrNotFound) || err == nil && l.Name != s.Name {
		return nil // the link is gone, and another link has its index
	} else if err != nil {
		return err
	}
	if err := h.PutQueue(was.Index, was.Queue); !errors.Is(err, link.ErrNotFound) {
		return err
	}
	return nil
}

// Verify checks the queue, the process and what redirects frames to it.
func (s Shape) Verify(k *Kernel) error {
	var was shapeWas
	if _, err := k.Kept(&was); err != nil {
		return err
	}
	shape := s.shape()
	if was.Process.PID != 0 {
		if err := s.verifyDetour(k, was); err != nil || s.Rate == 0 {
			return err
		}
		shape = s.rest()
	}
	c := check{step: s}
	return c.link(k, s.NS, s.Name, func(l link.Link, h *link.Handle) error {
		want, got, err := h.CompareShape(l.Index, shape)
		if err != nil {
			return err
		}
		c.equal("queueing discipline of "+s.Name, want, got)
		return nil
	})
}

func (s Shape) verifyDetour(k *Kernel, was shapeWas) error {
	c := check{step: s}
	process := "running"
	if r := k.Running(s.program()); r != nil && r.Died() != nil {
		process = r.Died().Error()
	} else if !k.Runs(was.Process) {
		process = "ended"
	}
	c.equal("process "+s.program(), "running", process)
	if process != "running" {
		return c.err()
	}
	return c.link(k, "", detour.Name(s.Port), func(l link.Link, _ *link.Handle) error {
		c.equal("state of "+l.Name, up, map[bool]string{true: up, false: down}[l.Up])
		var differences []linux.Difference
		if err := k.Do("", func() (err error) {
			differences, err = detour.Compare(was.Attached)
			return err
		}); err != nil {
			return err
		}
		for _, d := range differences {
			c.equal(d.What, d.Want, d.Got)
		}
		return nil
	})
}
