package docker

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/runtime"
)

// A Network is a network of Docker's driver macvlan or ipvlan: a link of the host, above which the links of containers
// are.
type Network struct {
	// Driver is the driver and the type of the links: "macvlan" or "ipvlan".
	Driver string `json:"driver"`
	// Mode is that of the links, as in ip-link(8).
	Mode string `json:"mode"`
	// Lower is the link of the host, and the name of the network.
	Lower string `json:"lower"`
	// Ranges are those of the containers, at most one of each family, in CIDR notation. Docker reserves the first address
	// of each.
	Ranges []string `json:"ranges"`
	// Routed gives containers a default route, to the link. Otherwise they have none.
	Routed bool `json:"routed,omitempty"`
}

// Kind returns "docker-network".
func (Network) Kind() string { return "docker-network" }

// String describes the step in plain words.
func (n Network) String() string {
	s := fmt.Sprintf("network of Docker by driver %s, mode %s, over %s, with %s", n.Driver, n.Mode, n.Lower,
		strings.Join(n.Ranges, ", "))
	if n.Routed {
		s += ", default route by the link"
	}
	return s
}

// Apply makes the network.
func (n Network) Apply(ctx context.Context, k *host.Kernel) error {
	args := []string{
		"network", "create", "--driver", n.Driver, "--opt", "parent=" + n.Lower, "--opt", n.Driver + "_mode=" + n.Mode,
	}
	if !n.Routed {
		args = append(args, "--internal") // else the gateway is that of a default route
	}
	for _, r := range n.Ranges {
		within, err := netip.ParsePrefix(r)
		if err != nil {
			return fmt.Errorf("range %q: %w", r, err)
		}
		args = append(args, ranged(within)...)
	}
	err := create(ctx, k, append(args, n.Lower))
	if err != nil && strings.Contains(err.Error(), n.Driver+" mode '"+n.Mode+"' is not valid") {
		return &linux.UnsupportedError{
			What: "make a network by Docker", Missing: fmt.Sprintf("mode %q of its driver %s", n.Mode, n.Driver),
			Hint: "choose another mode, or a younger Docker", Err: err,
		}
	}
	return err
}

// ranged are the arguments for a range of addresses of a network.
func ranged(of netip.Prefix) (args []string) {
	if of.Addr().Is6() {
		args = append(args, "--ipv6")
	}
	return append(args, "--subnet", of.String())
}

// create keeps that a network may be there, and makes it.
func create(ctx context.Context, k *host.Kernel, args []string) error {
	cmd, err := command(ctx, k, args...)
	if err != nil {
		return err
	}
	if err := k.Keep(struct{}{}); err != nil {
		return err
	}
	return runtime.Run(cmd)
}

// Remove removes the network.
func (n Network) Remove(ctx context.Context, k *host.Kernel) error { return remove(ctx, k, n.Lower) }

// remove removes a network that a step may have made.
func remove(ctx context.Context, k *host.Kernel, network string) error {
	var none struct{}
	if kept, err := k.Kept(&none); err != nil || !kept {
		return err
	}
	at, err := k.RunDir(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(at, socket)); err != nil {
		return nil // the daemon is gone, and this host with it
	}
	cmd, err := command(ctx, k, "network", "rm", network)
	if err != nil {
		return err
	}
	if err := runtime.Run(cmd); err != nil && !strings.Contains(strings.ToLower(err.Error()), "no such network") {
		return err
	}
	return nil
}

// Verify compares nothing: the network puts nothing into the kernel. Links are compared where containers are connected.
func (Network) Verify(*host.Kernel) error { return nil }

// wide are the lengths of the prefixes of a host's containers ([network.Gateway]), where the plan has whole addresses.
//
// [network.Gateway]: https://pkg.go.dev/github.com/nettoll/nettoll/network#Gateway
const wide4, wide6 = 16, 64

// widened returns an address as Docker gives it to a link: with the prefix of its range.
func widened(address string) (string, netip.Prefix, error) {
	at, err := netip.ParsePrefix(address)
	if err != nil {
		return "", at, fmt.Errorf("address %q: %w", address, err)
	}
	if at.IsSingleIP() {
		bits := wide4
		if at.Addr().Is6() {
			bits = wide6
		}
		at = netip.PrefixFrom(at.Addr(), bits)
	}
	return at.String(), at.Masked(), nil
}

// networkOf returns the network of a link that is above another one, and the link as Docker makes it.
func networkOf(j runtime.Joint, l runtime.Link) (Network, runtime.Link, error) {
	n := Network{Driver: l.Type, Mode: l.Mode, Lower: l.Lower, Routed: len(j.Gateways) > 0}
	addresses := make([]string, len(l.Addresses))
	for i, a := range l.Addresses {
		at, within, err := widened(a)
		if err != nil {
			return n, l, err
		}
		addresses[i], n.Ranges = at, append(n.Ranges, within.String())
	}
	l.Addresses = addresses
	return n, l, nil
}
