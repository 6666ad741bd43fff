package cni

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/relay"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// A Relay starts a process that moves frames between the TAP device of each container of a host and another one, which
// is a port of the host's bridge. Without it the devices of the containers have no carrier.
type Relay struct {
	Ports []Port `json:"ports"`
	// Bridge is the name of the bridge.
	Bridge string `json:"bridge"`
	// MTU in bytes of the ports.
	MTU int `json:"mtu"`
	// MultiQueue is true if the devices of the containers have several queues. The process uses one of each.
	MultiQueue bool `json:"multi_queue,omitempty"`
}

// A Port is the device of a [Relay] for a container.
type Port struct {
	Container string `json:"container"`
	// Link and MAC are its name and address.
	Link string `json:"link"`
	MAC  string `json:"mac"`
}

// relayed is the role of the process, and its name.
const relayed = "tap-relay"

// The process may take starting to open all devices, and more for each of them.
const (
	starting = 10 * time.Second
	more     = 50 * time.Millisecond
)

// Kind returns "cni-relay".
func (Relay) Kind() string { return "cni-relay" }

// String describes the step in plain words.
func (r Relay) String() string {
	var ports []string
	for _, p := range r.Ports {
		ports = append(ports, fmt.Sprintf("%s to %s in %s, mac %s", p.Link, network.Inner, p.Container, p.MAC))
	}
	return fmt.Sprintf("relay of TAP devices, ports of %s, mtu %d: %s", r.Bridge, r.MTU, strings.Join(ports, "; "))
}

// UndoneFirst makes Relay a [host.FirstUndone]: it ends before the plugins delete the devices of containers.
func (Relay) UndoneFirst() {}

// Programmed says that a process carries packets of the plugin tap.
func (Network) Programmed(p part.Params) bool {
	kind, _ := kindOf(p)
	return kind == tap
}

// Daemons returns the roles of this program that steps need.
func (Network) Daemons() map[string]host.Daemon { return map[string]host.Daemon{relayed: relay.Serve} }

// Apply starts the process and plugs its devices into the bridge.
func (r Relay) Apply(_ context.Context, k *host.Kernel) error {
	var wires []relay.Wire
	for _, p := range r.Ports {
		wires = append(wires, relay.Wire{
			Near: p.Link, Far: network.Inner, Path: k.Path(p.Container), MultiQueue: r.MultiQueue,
		})
	}
	args, err := relay.Args(wires)
	if err != nil {
		return err
	}
	running, err := k.Start(host.Program{
		Name: relayed, Self: true, Control: true, Args: append([]string{host.DaemonCommand, relayed}, args...),
	})
	if err != nil {
		return err
	}
	if err = running.Await(starting + time.Duration(len(r.Ports))*more); err == nil {
		err = r.plug(k)
	}
	if err == nil {
		err = k.Keep(running.Process())
	}
	if err != nil {
		return errors.Join(err, running.Stop(grace))
	}
	k.Implementation("network", "userspace (a process of nettoll between TAP devices)")
	return nil
}

// plug makes the devices ports of the bridge.
func (r Relay) plug(k *host.Kernel) error {
	h, err := k.Links("")
	if err != nil {
		return err
	}
	bridge, err := h.ByName(r.Bridge)
	if err != nil {
		return err
	}
	for _, p := range r.Ports {
		l, err := h.ByName(p.Link)
		if err != nil {
			return err
		}
		mac, err := net.ParseMAC(p.MAC)
		if err != nil {
			return err
		}
		if err := errors.Join(h.SetMAC(l.Index, mac), h.SetMTU(l.Index, r.MTU), h.SetMaster(l.Index, bridge.Index),
			h.SetUp(l.Index, true)); err != nil {
			return fmt.Errorf("plug %s into %s: %w", p.Link, r.Bridge, err)
		}
	}
	return nil
}

// Remove ends the process. Its devices go with it.
func (r Relay) Remove(_ context.Context, k *host.Kernel) error {
	var kept host.Process
	if ok, err := k.Kept(&kept); !ok {
		return err
	}
	return k.Stop(kept, grace)
}

// Verify wants the process, and its devices in the bridge.
func (r Relay) Verify(k *host.Kernel) error {
	if missing := notRunning(k, relayed); missing != nil {
		return &host.DriftError{Step: r.String(), Drifts: []linux.Difference{*missing}}
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	var list []linux.Difference
	differ := func(what, want, got string) {
		if want != got {
			list = append(list, linux.Difference{What: what, Want: want, Got: got})
		}
	}
	for _, p := range r.Ports {
		l, err := h.ByName(p.Link)
		if errors.Is(err, link.ErrNotFound) {
			differ("link "+p.Link, linux.Present, linux.Absent)
			continue
		} else if err != nil {
			return err
		}
		master := "none"
		if l.Master != 0 {
			m, err := h.ByIndex(l.Master)
			if err != nil {
				return err
			}
			master = m.Name
		}
		differ("master of "+p.Link, r.Bridge, master)
		differ("type of "+p.Link, "tuntap", l.Type)
		differ(p.Link, "up", map[bool]string{true: "up", false: "down"}[l.Up])
		differ("mac of "+p.Link, p.MAC, l.MAC.String())
		differ("mtu of "+p.Link, fmt.Sprint(r.MTU), fmt.Sprint(l.MTU))
	}
	if list != nil {
		return &host.DriftError{Step: r.String(), Drifts: list}
	}
	return nil
}
