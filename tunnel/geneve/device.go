package geneve

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// A Device makes an external GENEVE device in the host's own namespace. It is still down.
type Device struct {
	Name string `json:"name"`
	MAC  string `json:"mac"`
	MTU  int    `json:"mtu"`
	// Port is the UDP port that it receives at and sends to.
	Port uint16 `json:"port"`
}

// Kind returns "geneve".
func (Device) Kind() string { return "geneve" }

// String says the step as a person would.
func (d Device) String() string {
	return fmt.Sprintf("geneve %s, mac %s, mtu %d, port %d, external", d.Name, d.MAC, d.MTU, d.Port)
}

// Apply makes the device.
func (d Device) Apply(ctx context.Context, k *host.Kernel) error {
	mac, err := net.ParseMAC(d.MAC)
	if err != nil {
		return fmt.Errorf("geneve %q: %w", d.Name, err)
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	index, err := h.AddGeneve(link.Geneve{Name: d.Name, MAC: mac, MTU: d.MTU, Port: d.Port})
	if err != nil {
		return err
	}
	made := host.Made{Index: index}
	if err := k.Keep(made); err != nil {
		return errors.Join(err, made.Remove(ctx, k, "", d.Name, ""))
	}
	return nil
}

// Remove removes the device.
func (d Device) Remove(ctx context.Context, k *host.Kernel) error {
	var made host.Made
	if ok, err := k.Kept(&made); !ok {
		return err
	}
	return made.Remove(ctx, k, "", d.Name, "")
}

// Verify reads the device back.
func (d Device) Verify(k *host.Kernel) error {
	h, err := k.Links("")
	if err != nil {
		return err
	}
	drift := &host.DriftError{Step: d.String()}
	differ := func(what, want, got string) {
		if want != got {
			drift.Drifts = append(drift.Drifts, linux.Difference{What: what, Want: want, Got: got})
		}
	}
	l, err := h.ByName(d.Name)
	if errors.Is(err, link.ErrNotFound) {
		differ("link "+d.Name, linux.Present, linux.Absent)
		return drift
	}
	if err != nil {
		return err
	}
	if differ("type of "+d.Name, "geneve", l.Type); len(drift.Drifts) > 0 {
		return drift
	}
	got, err := h.Geneve(d.Name)
	if err != nil {
		return err
	}
	differ("mac of "+d.Name, d.MAC, got.MAC.String())
	differ("mtu of "+d.Name, fmt.Sprint(d.MTU), fmt.Sprint(got.MTU))
	differ("port of "+d.Name, fmt.Sprint(d.Port), fmt.Sprint(got.Port))
	differ("external of "+d.Name, "true", fmt.Sprint(got.External))
	if len(drift.Drifts) > 0 {
		return drift
	}
	return nil
}
