package macsec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	driver "github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/macsec"
)

// A Device is the MACsec device of a host, with the keys of all hosts. It is down.
type Device struct {
	// Name is that of its link, and Below that of the link it stands on.
	Name  string `json:"name"`
	Below string `json:"below"`
	// Cipher is its name: "gcm-aes-128".
	Cipher string `json:"cipher"`
	// Window is how far behind the newest packet one may come, in packets.
	Window uint32 `json:"window,omitempty"`
	// Own is what it sends by, and Peers what it receives by.
	Own   Channel   `json:"own"`
	Peers []Channel `json:"peers,omitempty"`
}

// A Channel is the device of a host.
type Channel struct {
	// Host is the number of the host, from 1: the key is derived from that.
	Host int `json:"host"`
	// MAC is the address of the device.
	MAC string `json:"mac"`
}

// Kind returns "macsec".
func (Device) Kind() string { return name }

// String says the step as a person would.
func (d Device) String() string {
	var peers []string
	for _, p := range d.Peers {
		peers = append(peers, fmt.Sprintf("host%d at %s", p.Host, p.MAC))
	}
	return fmt.Sprintf("macsec device %s on %s, mac %s, %s, window %d, peers %s", d.Name, d.Below, d.Own.MAC, d.Cipher,
		d.Window, strings.Join(peers, "; "))
}

// config is what the device is to be told.
func (d Device) config(k *host.Kernel) (macsec.Config, error) {
	c := macsec.Config{Window: d.Window}
	var err error
	if c.Cipher, err = macsec.Find(d.Cipher); err != nil {
		return c, err
	}
	if c.Own, err = d.channel(k, c.Cipher, d.Own); err != nil {
		return c, err
	}
	for _, p := range d.Peers {
		one, err := d.channel(k, c.Cipher, p)
		if err != nil {
			return c, err
		}
		c.Peers = append(c.Peers, one)
	}
	h, err := k.Links("")
	if err != nil {
		return c, err
	}
	l, err := h.ByName(d.Below)
	c.Below = l.Index
	return c, err
}

// channel derives the key of a host.
func (Device) channel(k *host.Kernel, c macsec.Cipher, of Channel) (macsec.Channel, error) {
	one := macsec.Channel{Host: of.Host}
	var err error
	if one.MAC, err = net.ParseMAC(of.MAC); err != nil {
		return one, fmt.Errorf("address of host %d: %w", of.Host, err)
	}
	var derived [3][]byte
	for i, what := range []string{"key", "name of the key", "salt"} {
		if derived[i], err = k.Derive(fmt.Sprintf("%s %s of host %d", name, what, of.Host)); err != nil {
			return one, err
		}
	}
	one.Key, err = macsec.NewKey(derived[0][:c.KeyLength], derived[1][:macsec.IDLength], derived[2][:macsec.SaltLength])
	return one, err
}

// Apply makes the device and gives it its keys.
func (d Device) Apply(ctx context.Context, k *host.Kernel) error {
	config, err := d.config(k)
	if err != nil {
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
	var made host.Made
	err = k.Do("", func() (err error) {
		made.Index, err = macsec.Add(d.Name, config)
		return err
	})
	if made.Index == 0 {
		return err
	}
	if err == nil {
		err = k.Keep(made)
	}
	if err != nil {
		return errors.Join(err, made.Remove(ctx, k, "", d.Name, ""))
	}
	k.Implementation("encryption", "macsec (kernel)")
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

// Verify asks the kernel for the settings of the device and for the names of its keys.
func (d Device) Verify(k *host.Kernel) error {
	drift := func(list ...linux.Difference) error { return &host.DriftError{Step: d.String(), Drifts: list} }
	h, err := k.Links("")
	if err != nil {
		return err
	}
	l, err := h.ByName(d.Name)
	if errors.Is(err, driver.ErrNotFound) {
		return drift(linux.Difference{What: "link " + d.Name, Want: linux.Present, Got: linux.Absent})
	}
	if err != nil {
		return err
	}
	if l.Type != name {
		return drift(linux.Difference{What: "type of " + d.Name, Want: name, Got: l.Type})
	}
	config, err := d.config(k)
	if err != nil {
		return err
	}
	var list []linux.Difference
	if err := k.Do("", func() (err error) {
		list, err = macsec.Compare(d.Name, config)
		return err
	}); err != nil {
		return err
	}
	if l.MAC.String() != d.Own.MAC {
		list = append(list, linux.Difference{What: "mac of " + d.Name, Want: d.Own.MAC, Got: l.MAC.String()})
	}
	if len(list) > 0 {
		return drift(list...)
	}
	return nil
}

// Silent says that nothing tells of its channels and keys, see [host.Silent].
func (Device) Silent() {}
