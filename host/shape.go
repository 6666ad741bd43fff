package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// A Shape limits the rate of an existing link, delays its packets or drops some of them. Undoing it restores the former
// queue.
type Shape struct {
	NS   string `json:"ns,omitempty"`
	Name string `json:"name"`
	// Rate in bit/s of Ethernet frames; 0 leaves it. See [link.Shape].
	Rate int64 `json:"rate,omitempty"`
	// Delay is how much later each packet leaves.
	Delay time.Duration `json:"delay,omitempty"`
	// Loss is the share of packets that are lost, from 0 to 1.
	Loss float64 `json:"loss,omitempty"`
	// MTU of the link in bytes.
	MTU int `json:"mtu"`
}

// Kind returns "shape".
func (Shape) Kind() string { return "shape" }

// String says the step as a person would.
func (s Shape) String() string {
	var parts []string
	if s.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%g Mbit/s", float64(s.Rate)/1e6))
	}
	if s.Delay > 0 {
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
	return link.Shape{Rate: s.Rate, Delay: s.Delay, Loss: s.Loss, MTU: s.MTU}
}

// Check returns an error if this kernel cannot shape links so. It changes nothing.
func (s Shape) Check() error { return link.CheckShape(s.shape()) }

// shapeWas is what a [Shape] found.
type shapeWas struct {
	Index int        `json:"index"`
	Queue link.Queue `json:"queue"`
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
	if err := h.SetShape(l.Index, s.shape()); err != nil {
		return err
	}
	if err := k.Keep(shapeWas{l.Index, found}); err != nil {
		return errors.Join(err, h.PutQueue(l.Index, found))
	}
	return nil
}

// Remove restores the former queue.
func (s Shape) Remove(_ context.Context, k *Kernel) error {
	var was shapeWas
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	_, h, stands, err := k.standing(s.NS)
	if !stands {
		return err
	}
	if l, err := h.ByIndex(was.Index); errors.Is(err, link.ErrNotFound) || err == nil && l.Name != s.Name {
		return nil // it is gone, and its index another's
	} else if err != nil {
		return err
	}
	if err := h.PutQueue(was.Index, was.Queue); !errors.Is(err, link.ErrNotFound) {
		return err
	}
	return nil
}

// Verify reads the queue back.
func (s Shape) Verify(k *Kernel) error {
	c := check{step: s}
	return c.link(k, s.NS, s.Name, func(l link.Link, h *link.Handle) error {
		want, got, err := h.CompareShape(l.Index, s.shape())
		if err != nil {
			return err
		}
		c.equal("queueing discipline of "+s.Name, want, got)
		return nil
	})
}
