package ipsec

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/ipsec"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// A Device is the link of a host whose packets are encrypted, with the associations that do it. It is down.
type Device struct {
	// Name is that of the link.
	Name string `json:"name"`
	// Impl is "auto", "kernel" or "strongswan".
	Impl string `json:"impl"`
	// Cipher is its name: "aes-256-gcm".
	Cipher string `json:"cipher"`
	// UDP says that ESP is in UDP.
	UDP bool `json:"udp,omitempty"`
	// Transport says that it is in transport mode: between the addresses of hosts on the span below. There is no link
	// then, and no name of one.
	Transport bool `json:"transport,omitempty"`
	// Host is the number of the host, from 1, and At its address on the span below.
	Host int    `json:"host"`
	At   string `json:"at"`
	// Own are the ranges of addresses of the host and of its containers.
	Own []string `json:"own,omitempty"`
	// Peers are the other hosts.
	Peers []Peer `json:"peers,omitempty"`
}

// A Peer is another host.
type Peer struct {
	// Host is its number: the keys that both hosts have are derived from that.
	Host int `json:"host"`
	// At is its address on the span below.
	At string `json:"at"`
	// Ranges are the addresses that are its.
	Ranges []string `json:"ranges,omitempty"`
}

// Kind returns "ipsec".
func (Device) Kind() string { return name }

// String says the step as a person would.
func (d Device) String() string {
	var peers []string
	for _, p := range d.Peers {
		if d.Transport {
			peers = append(peers, fmt.Sprintf("host%d at %s", p.Host, p.At))
			continue
		}
		peers = append(peers, fmt.Sprintf("host%d at %s with %s", p.Host, p.At, strings.Join(p.Ranges, ", ")))
	}
	carried := ""
	if d.UDP {
		carried = " in udp"
	}
	if d.Transport {
		return fmt.Sprintf("ipsec in transport mode, %s, esp%s from %s, impl %s, peers %s", d.Cipher, carried, d.At, d.Impl,
			strings.Join(peers, "; "))
	}
	return fmt.Sprintf("ipsec device %s, %s, esp%s from %s, impl %s, peers %s", d.Name, d.Cipher, carried, d.At, d.Impl,
		strings.Join(peers, "; "))
}

// purposes of keys. Those of packets are derived in pieces of 32 bytes.
const (
	shared = "ipsec ike of hosts %d and %d"
	packet = "ipsec esp from host %d to host %d, piece %d"
	// renewed is added to packet.
	renewed = ", renewal %d"
)

// config is what the device is to be told after keys were renewed so often.
func (d Device) config(k *host.Kernel, epoch int) (ipsec.Config, error) {
	c := ipsec.Config{Host: d.Host, Encapsulated: d.UDP, Transport: d.Transport, Epoch: epoch}
	var err error
	if c.Cipher, err = ipsec.Find(d.Cipher); err != nil {
		return c, err
	}
	if c.At, err = netip.ParseAddr(d.At); err != nil {
		return c, fmt.Errorf("address of the host: %w", err)
	}
	if c.Own, err = parse(d.Own); err != nil {
		return c, fmt.Errorf("addresses of the host: %w", err)
	}
	for _, p := range d.Peers {
		peer := ipsec.Peer{Host: p.Host}
		if peer.At, err = netip.ParseAddr(p.At); err != nil {
			return c, fmt.Errorf("address of host %d: %w", p.Host, err)
		}
		if peer.Ranges, err = parse(p.Ranges); err != nil {
			return c, fmt.Errorf("addresses of host %d: %w", p.Host, err)
		}
		if peer.Shared, err = derive(k, 0, func(int) string {
			return fmt.Sprintf(shared, min(d.Host, p.Host), max(d.Host, p.Host))
		}); err != nil {
			return c, err
		}
		direction := func(from, to int) (ipsec.Key, error) {
			return derive(k, ipsec.Families*c.Cipher.KeyLength(), func(piece int) string {
				if epoch > 0 {
					return fmt.Sprintf(packet+renewed, from, to, piece, epoch)
				}
				return fmt.Sprintf(packet, from, to, piece)
			})
		}
		if peer.In, err = direction(p.Host, d.Host); err != nil {
			return c, err
		}
		if peer.Out, err = direction(d.Host, p.Host); err != nil {
			return c, err
		}
		c.Peers = append(c.Peers, peer)
	}
	return c, nil
}

// derive derives a key of that length, 0 for that of one piece.
func derive(k *host.Kernel, length int, purpose func(piece int) string) (ipsec.Key, error) {
	var all []byte
	for piece := 1; len(all) == 0 || len(all) < length; piece++ {
		b, err := k.Derive(purpose(piece))
		if err != nil {
			return ipsec.Key{}, err
		}
		all = append(all, b...)
	}
	if length > 0 {
		all = all[:length]
	}
	return ipsec.NewKey(all), nil
}

func parse(list []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// deviceWas is what a [Device] keeps: who encrypts, and the index of the kernel's link or the process of charon.
type deviceWas struct {
	Impl    string       `json:"impl"`
	Index   int          `json:"index,omitempty"`
	Process host.Process `json:"process,omitzero"`
	// Epoch is how often the kernel's keys were renewed.
	Epoch int `json:"epoch,omitempty"`
}

// Apply makes the device and tells it its peers.
func (d Device) Apply(_ context.Context, k *host.Kernel) error {
	config, err := d.config(k, 0)
	if err != nil {
		return err
	}
	var of string
	if err := k.Do("", func() (err error) {
		of, err = choose(d.Impl, d.UDP && !d.Transport, config.Cipher)
		return err
	}); err != nil {
		return err
	}
	if err := d.free(k); err != nil {
		return err
	}
	was, who := deviceWas{Impl: of}, "ipsec (kernel)"
	if err := k.Keep(was); err != nil {
		return err
	}
	if of == strongswan {
		who, err = d.start(k, config, &was)
	} else {
		err = d.add(k, config, &was)
	}
	if err != nil {
		return errors.Join(err, d.remove(k, was))
	}
	k.Implementation("encryption", who)
	return nil
}

// free says whether its link can be made.
func (d Device) free(k *host.Kernel) error {
	if d.Transport {
		return nil
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	if _, err = h.ByName(d.Name); err == nil {
		return fmt.Errorf("link %q already exists", d.Name)
	} else if !errors.Is(err, link.ErrNotFound) {
		return err
	}
	return nil
}

// add makes the kernel's link, and what encrypts its packets.
func (d Device) add(k *host.Kernel, config ipsec.Config, was *deviceWas) error {
	if err := k.Do("", func() (err error) {
		was.Index, err = ipsec.AddKernel(d.Name, config)
		return err
	}); err != nil {
		return err
	}
	if d.UDP {
		if err := k.Do("", func() error {
			held, err := ipsec.Decapsulate(config)
			if err != nil {
				return err
			}
			return k.Hold(held)
		}); err != nil {
			return err
		}
	}
	return k.Keep(*was)
}

// start starts charon, tells it its peers, and returns who encrypts.
func (d Device) start(k *host.Kernel, config ipsec.Config, was *deviceWas) (who string, err error) {
	dir, err := k.RunDir(name)
	if err != nil {
		return "", err
	}
	charon := ipsec.Instance{Dir: dir}
	if err := charon.Create(); err != nil {
		return "", err
	}
	r, err := k.Start(host.Program{
		Name: name, Args: []string{ipsec.Program}, Env: charon.Env(), Package: ipsec.Packages,
	})
	if err != nil {
		return "", err
	}
	was.Process = r.Process()
	if err = k.Keep(*was); err == nil {
		err = charon.Ready(r.Done())
	}
	if err == nil {
		err = charon.Load(config)
	}
	if err == nil {
		err = d.quiet(k)
	}
	if err == nil {
		err = charon.Initiate(config)
	}
	var version string
	if err == nil {
		version, err = charon.Version()
	}
	if err != nil {
		select { // the program may have ended, and then says why
		case <-r.Done():
		case <-time.After(dying):
		}
		return "", errors.Join(err, r.Died(), r.Stop(grace))
	}
	return fmt.Sprintf("ipsec (strongSwan %s, kernel-libipsec)", version), nil
}

// quiet removes what charon has made besides its link, and sets that down: charon has set it up, with an address of
// link scope.
func (d Device) quiet(k *host.Kernel) error {
	if err := k.Do("", ipsec.DropRules); err != nil {
		return err
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	l, err := h.ByName(d.Name)
	if err != nil {
		return err
	}
	return h.SetUp(l.Index, false)
}

const (
	// grace is how long the process is given to end.
	grace = 2 * time.Second
	// dying is how long a process that does not answer is given to say why.
	dying = 200 * time.Millisecond
)

// Remove removes the device with its associations, and ends the process.
func (d Device) Remove(_ context.Context, k *host.Kernel) error {
	var was deviceWas
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	return d.remove(k, was)
}

func (d Device) remove(k *host.Kernel, was deviceWas) error {
	if was.Impl == strongswan { // the link goes with the process
		errs := []error{k.Stop(was.Process, grace), k.Do("", ipsec.DropRules)}
		dir, err := k.RunDir(name)
		if err == nil {
			err = os.RemoveAll(dir)
		}
		return errors.Join(append(errs, err)...)
	}
	errs := []error{k.Do("", func() error { return ipsec.RemoveKernel(ipsec.Config{Transport: d.Transport}) })}
	if was.Index == 0 { // it was not made
		return errors.Join(errs...)
	}
	h, err := k.Links("")
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	l, err := h.ByIndex(was.Index)
	if err == nil && l.Name == d.Name { // else it is gone, and its index another's
		err = h.Delete(was.Index)
	}
	if !errors.Is(err, link.ErrNotFound) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Silent says that no namespace shows which associations charon has, see [host.Silent].
func (Device) Silent() {}

// Verify asks what encrypts for its peers and associations, and whether it is what was asked for. While hosts are
// agreeing on their first associations, it waits for them.
func (d Device) Verify(k *host.Kernel) error {
	var was deviceWas
	if _, err := k.Kept(&was); err != nil {
		return err
	}
	config, err := d.config(k, was.Epoch)
	if err != nil {
		return err
	}
	drift := func(list ...linux.Difference) error { return &host.DriftError{Step: d.String(), Drifts: list} }
	if d.Transport {
		var list []linux.Difference
		if err := k.Do("", func() (err error) {
			list, err = ipsec.CompareKernel("", config)
			return err
		}); err != nil {
			return err
		}
		if len(list) > 0 {
			return drift(list...)
		}
		return nil
	}
	r := k.Running(name)
	if r != nil {
		if died := r.Died(); died != nil {
			return drift(linux.Difference{What: "process of " + d.Name, Want: "running", Got: died.Error()})
		}
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	l, err := h.ByName(d.Name)
	if errors.Is(err, link.ErrNotFound) {
		return drift(linux.Difference{What: "link " + d.Name, Want: linux.Present, Got: linux.Absent})
	}
	if err != nil {
		return err
	}
	var list []linux.Difference
	switch {
	case r != nil && d.Impl != kernel && l.Type == "tuntap":
		dir, derr := k.RunDir(name)
		if derr != nil {
			return derr
		}
		list, err = ipsec.Instance{Dir: dir}.Stands(config, r.Done())
		if err == nil {
			err = k.Do("", func() error {
				more, err := ipsec.CompareRoutes()
				list = append(list, more...)
				return err
			})
		}
	case r == nil && d.Impl != strongswan && l.Type == "xfrm":
		err = k.Do("", func() (err error) {
			list, err = ipsec.CompareKernel(d.Name, config)
			return err
		})
	default:
		list = []linux.Difference{{What: "type of " + d.Name, Want: "a device by impl " + d.Impl, Got: l.Type}}
	}
	if err != nil {
		return err
	}
	if len(list) > 0 {
		return drift(list...)
	}
	return nil
}
