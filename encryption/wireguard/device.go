package wireguard

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	driver "github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/wireguard"
)

// A Device is the WireGuard device of a host, with its peers. It is down.
type Device struct {
	// Name and MTU (bytes) are those of its link.
	Name string `json:"name"`
	MTU  int    `json:"mtu"`
	// Impl is "auto", "kernel" or "embedded".
	Impl string `json:"impl"`
	// Host is the number of the host, from 1: its private key is derived from that.
	Host int `json:"host"`
	// Port is that of UDP at which it listens.
	Port uint16 `json:"port"`
	// Peers are the devices of the other hosts.
	Peers []Peer `json:"peers,omitempty"`
}

// A Peer is the device of another host.
type Peer struct {
	// Host is its number: its public key is derived from that.
	Host int `json:"host"`
	// Endpoint is where it listens: "198.18.0.2:51820".
	Endpoint string `json:"endpoint"`
	// Allowed are the ranges of addresses that are its.
	Allowed []string `json:"allowed"`
}

// Kind returns "wireguard".
func (Device) Kind() string { return name }

// String says the step as a person would.
func (d Device) String() string {
	var peers []string
	for _, p := range d.Peers {
		peers = append(peers, fmt.Sprintf("host%d at %s with %s", p.Host, p.Endpoint, strings.Join(p.Allowed, ", ")))
	}
	return fmt.Sprintf("wireguard device %s, mtu %d, port %d, impl %s, peers %s", d.Name, d.MTU, d.Port, d.Impl,
		strings.Join(peers, "; "))
}

// key derives the private key of a host.
func key(k *host.Kernel, of int) (wireguard.Private, error) {
	random, err := k.Derive(fmt.Sprintf("%s of host %d", name, of))
	if err != nil {
		return wireguard.Private{}, err
	}
	return wireguard.NewPrivate(random)
}

// config is what the device is to be told.
func (d Device) config(k *host.Kernel) (wireguard.Config, error) {
	own, err := key(k, d.Host)
	if err != nil {
		return wireguard.Config{}, err
	}
	c := wireguard.Config{Key: own, Port: d.Port}
	for _, p := range d.Peers {
		theirs, err := key(k, p.Host)
		if err != nil {
			return wireguard.Config{}, err
		}
		var peer wireguard.Peer
		if peer.Key, err = theirs.Public(); err != nil {
			return wireguard.Config{}, err
		}
		if peer.Endpoint, err = netip.ParseAddrPort(p.Endpoint); err != nil {
			return wireguard.Config{}, fmt.Errorf("endpoint of host %d: %w", p.Host, err)
		}
		for _, text := range p.Allowed {
			a, err := netip.ParsePrefix(text)
			if err != nil {
				return wireguard.Config{}, fmt.Errorf("addresses of host %d: %w", p.Host, err)
			}
			peer.Allowed = append(peer.Allowed, a)
		}
		c.Peers = append(c.Peers, peer)
	}
	return c, nil
}

// deviceWas is what a [Device] keeps: who encrypts, and the index of the kernel's device or the process of an embedded
// one.
type deviceWas struct {
	Impl    string       `json:"impl"`
	Index   int          `json:"index,omitempty"`
	Process host.Process `json:"process,omitzero"`
}

// Apply makes the device and configures it.
func (d Device) Apply(_ context.Context, k *host.Kernel) error {
	config, err := d.config(k)
	if err != nil {
		return err
	}
	var of string
	if err := k.Do("", func() (err error) { of, err = choose(d.Impl); return err }); err != nil {
		return err
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	if _, err := h.ByName(d.Name); err == nil {
		return fmt.Errorf("link %q already exists", d.Name)
	} else if !errors.Is(err, driver.ErrNotFound) {
		return err
	}
	who := "wireguard (kernel)"
	if of == embedded {
		who = "wireguard (embedded, " + wireguard.Library() + ")"
		err = d.start(k, config)
	} else {
		err = d.add(k, config)
	}
	if err != nil {
		return err
	}
	k.Implementation("encryption", who)
	return nil
}

// add makes the kernel's device.
func (d Device) add(k *host.Kernel, config wireguard.Config) error {
	was := deviceWas{Impl: kernel}
	if err := k.Do("", func() (err error) {
		was.Index, err = wireguard.Add(d.Name, d.MTU)
		return err
	}); err != nil {
		return err
	}
	err := k.Keep(was)
	if err == nil {
		err = k.Do("", func() error { return wireguard.SetKernel(d.Name, config) })
	}
	if err != nil {
		return errors.Join(err, d.remove(k, was))
	}
	return nil
}

// start starts the process of an embedded device, and configures that.
func (d Device) start(k *host.Kernel, config wireguard.Config) error {
	r, err := k.Start(host.Program{
		Name: name, Self: true, Args: append([]string{host.DaemonCommand, name}, wireguard.Args(d.Name, d.MTU)...),
		Control: true,
	})
	if err != nil {
		return err
	}
	if err = k.Keep(deviceWas{Impl: embedded, Process: r.Process()}); err == nil {
		err = wireguard.Set(r.Control(), config)
	}
	if err != nil {
		select { // the program may have ended, and then says why
		case <-r.Done():
		case <-time.After(dying):
		}
		return errors.Join(r.Died(), err, r.Stop(grace))
	}
	return nil
}

const (
	// grace is how long the process is given to end.
	grace = 2 * time.Second
	// dying is how long a process that has closed its control socket is given to say why.
	dying = 200 * time.Millisecond
)

// Remove removes the device, and ends its process.
func (d Device) Remove(_ context.Context, k *host.Kernel) error {
	var was deviceWas
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	return d.remove(k, was)
}

func (d Device) remove(k *host.Kernel, was deviceWas) error {
	if was.Impl == embedded { // its link goes with it
		return k.Stop(was.Process, grace)
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	l, err := h.ByIndex(was.Index)
	if errors.Is(err, driver.ErrNotFound) || err == nil && l.Name != d.Name {
		return nil // it is gone, and its index another's
	}
	if err == nil {
		err = h.Delete(was.Index)
	}
	if errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	return err
}

// Verify asks the device for its keys, its port and its peers, and whether it is the one that was asked for.
func (d Device) Verify(k *host.Kernel) error {
	config, err := d.config(k)
	if err != nil {
		return err
	}
	drift := func(list ...linux.Difference) error { return &host.DriftError{Step: d.String(), Drifts: list} }
	h, err := k.Links("")
	if err != nil {
		return err
	}
	l, err := h.ByName(d.Name)
	if errors.Is(err, driver.ErrNotFound) {
		gone := linux.Difference{What: "link " + d.Name, Want: linux.Present, Got: linux.Absent}
		if r := k.Running(name); r != nil && r.Died() != nil {
			gone.Got = r.Died().Error()
		}
		return drift(gone)
	}
	if err != nil {
		return err
	}
	var state wireguard.State
	r := k.Running(name)
	if r != nil && d.Impl != kernel && l.Type != name {
		if died := r.Died(); died != nil {
			return drift(linux.Difference{What: "process of " + d.Name, Want: "running", Got: died.Error()})
		}
		state, err = wireguard.Get(r.Control())
	} else if r == nil && d.Impl != embedded && l.Type == name {
		err = k.Do("", func() error {
			state, err = wireguard.GetKernel(d.Name)
			return err
		})
	} else {
		return drift(linux.Difference{What: "type of " + d.Name, Want: "a device by impl " + d.Impl, Got: l.Type})
	}
	if err != nil {
		return err
	}
	differences, err := wireguard.Compare(config, state)
	if err != nil {
		return err
	}
	if len(differences) > 0 {
		return drift(differences...)
	}
	return nil
}

// Silent says that nothing tells of its peers and keys, see [host.Silent].
func (Device) Silent() {}
