package ovstunnel

import (
	"context"
	"errors"
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/iptunnel"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// OVS is a value of [Frames] in addition to those of [iptunnel.Links].
const OVS = "ovs"

// Frames make links whose Ethernet frames a kernel device, or else Open vSwitch, carries to other hosts. D is the step
// that makes the device.
type Frames[D host.Step] struct {
	// Impl is "auto", "kernel" or "ovs".
	Impl string `json:"impl"`
	// Type is the kernel's name for the device.
	Type   string `json:"type"`
	Device D      `json:"device"`
	// Switch makes the same links with Open vSwitch.
	Switch Links `json:"switch"`
}

// Kind returns the kind of the device's step with a prefix that says that there is a choice.
func (f Frames[D]) Kind() string { return "frames-by-" + f.Device.Kind() }

// String describes the step in plain words.
func (f Frames[D]) String() string {
	switch f.Impl {
	case OVS:
		return f.Switch.String()
	case iptunnel.Kernel:
		return f.Device.String()
	}
	return f.Device.String() + "; by Open vSwitch if the kernel has no " + f.Type
}

// implementation decides who encapsulates. in runs a function on the host.
func (f Frames[D]) implementation(in func(func() error) error) (string, error) {
	device := func() error {
		return in(func() error {
			return link.CheckKind(f.Type, fmt.Sprintf("load the kernel's module for it, or use impl=%s", OVS))
		})
	}
	switch f.Impl {
	case iptunnel.Kernel:
		return iptunnel.Kernel, device()
	case OVS:
		return OVS, in(Check)
	case "", iptunnel.Auto:
	default:
		return "", fmt.Errorf("implementation %q (known: %s, %s, %s)", f.Impl, iptunnel.Auto, iptunnel.Kernel, OVS)
	}
	err := device()
	if !errors.Is(err, errors.ErrUnsupported) {
		return iptunnel.Kernel, err
	}
	if other := in(Check); other != nil {
		return "", errors.Join(err, other)
	}
	return OVS, nil
}

// Check returns an error if this machine cannot make such links.
func (f Frames[D]) Check() error {
	_, err := f.implementation(func(do func() error) error { return do() })
	return err
}

// made returns who encapsulates on a host, after Apply has decided that.
func (f Frames[D]) made(k *host.Kernel) (of string, applied bool, err error) {
	var was struct{ OVS bool }
	applied, err = k.Kept(&was)
	if was.OVS {
		return OVS, applied, err
	}
	return iptunnel.Kernel, applied, err
}

// Apply makes the links.
func (f Frames[D]) Apply(ctx context.Context, k *host.Kernel) error {
	of, err := f.implementation(func(do func() error) error { return k.Do("", do) })
	if err != nil {
		return err
	}
	if of == OVS {
		return f.Switch.Apply(ctx, k)
	}
	if err := f.Device.Apply(ctx, k); err != nil {
		return err
	}
	k.Implementation("tunnel", of)
	return nil
}

// Remove removes what Apply made.
func (f Frames[D]) Remove(ctx context.Context, k *host.Kernel) error {
	of, applied, err := f.made(k)
	switch {
	case err != nil || !applied:
		return err
	case of == OVS:
		return f.Switch.Remove(ctx, k)
	}
	return f.Device.Remove(ctx, k)
}

// Verify checks the kernel's device, or Open vSwitch.
func (f Frames[D]) Verify(k *host.Kernel) error {
	of, _, err := f.made(k)
	if err != nil {
		return err
	}
	if of == OVS {
		return f.Switch.Verify(k)
	}
	return f.Device.Verify(k)
}

// Count returns the packets that the tunnel ports of Open vSwitch, or the devices, have sent and received.
func (f Frames[D]) Count(k *host.Kernel) (map[string]uint64, error) {
	of, _, err := f.made(k)
	if err != nil {
		return nil, err
	}
	if of == OVS {
		return f.Switch.Count(k)
	}
	names := make([]string, len(f.Switch.Links))
	for i, l := range f.Switch.Links {
		names[i] = l.Name
	}
	return iptunnel.CountLinks(k, names)
}
