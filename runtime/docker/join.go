package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/runtime"
)

// A Join connects a container to a [Bridge], a [Network] or an [Overlay]. Docker makes its link, addresses and routes.
// Links get the names, the MAC address and the MTU of the plan.
type Join struct {
	Container string `json:"container"`
	runtime.Link
}

// Kind returns "docker-join".
func (Join) Kind() string { return "docker-join" }

// String describes the step in plain words.
func (j Join) String() string {
	return "container " + j.Container + " connected by " + j.Described("Docker")
}

// network is the name of that of the container.
func (j Join) network() string {
	switch {
	case j.LowerNS != "":
		return j.LowerNS
	case j.Type == runtime.TypeVeth:
		return j.Master
	}
	return j.Lower
}

// connected returns the steps that connect containers, and those that make the networks for links above others.
func connected(joints []runtime.Joint) (networks, joins []host.Step, err error) {
	made := map[string]Network{} // by their lower link
	for _, j := range joints {
		l, err := j.LinkBy("Docker", runtime.TypeVeth, runtime.TypeMacvlan, runtime.TypeIPvlan)
		if err != nil {
			return nil, nil, err
		}
		if l.Type != runtime.TypeVeth {
			var n Network
			if n, l, err = networkOf(j, l); err != nil {
				return nil, nil, err
			}
			if _, is := made[n.Lower]; !is {
				if len(made) > 0 {
					return nil, nil, fmt.Errorf("with mode=%s each container has a lower link, and Docker makes no two networks of "+
						"the same addresses on a host (hint: a pair across hosts, or another mode)", n.Mode)
				}
				made[n.Lower] = n
				networks = append(networks, n)
			}
		}
		joins = append(joins, Join{Container: j.Container.Name, Link: l})
	}
	return networks, joins, nil
}

// Apply connects the container.
func (j Join) Apply(ctx context.Context, k *host.Kernel) error {
	// A container has been made without a network, and is then in the network "none", which has no other beside it.
	leave, err := command(ctx, k, "network", "disconnect", "none", j.Container)
	if err != nil {
		return err
	}
	args := []string{"network", "connect"}
	for _, address := range j.Addresses {
		at, err := netip.ParsePrefix(address)
		if err != nil {
			return fmt.Errorf("address %q: %w", address, err)
		}
		flag := "--ip"
		if at.Addr().Is6() {
			flag = "--ip6"
		}
		args = append(args, flag, at.Addr().String())
	}
	connect, err := command(ctx, k, append(args, j.network(), j.Container)...)
	if err != nil {
		return err
	}
	mac := j.MAC
	if mac == "" { // it is that of the link below, to which macvlan links in mode passthru would give Docker's
		if mac, err = below(k, j.Lower); err != nil {
			return err
		}
	}
	if err := runtime.Run(leave); err != nil {
		return err
	}
	if err := runtime.Run(connect); err != nil {
		return err
	}
	if j.LowerNS != "" {
		if err := show(ctx, k, j.LowerNS); err != nil {
			return err
		}
	}
	return j.adapt(k, mac)
}

// below returns the MAC address of a link of the host.
func below(k *host.Kernel, name string) (string, error) {
	h, err := k.Links("")
	if err != nil {
		return "", err
	}
	l, err := h.ByName(name)
	return l.MAC.String(), err
}

// adapt gives the links the names and the MTU of the plan, and the one in the container this MAC address.
func (j Join) adapt(k *host.Kernel, mac string) error {
	far, err := k.Links(j.NS)
	if err != nil {
		return err
	}
	inner, err := far.ByName(j.Name)
	if err != nil {
		return err
	}
	if inner.MAC.String() != mac {
		if err := runtime.SetMAC(k, j.NS, j.Name, mac); err != nil {
			return err
		}
	}
	if j.Type != runtime.TypeVeth { // for which Docker has an option
		if j.MTU == 0 || inner.MTU == j.MTU {
			return nil
		}
		return far.SetMTU(inner.Index, j.MTU)
	}
	if j.LowerNS == "" { // the host has addresses there
		near, err := k.Links("")
		if err != nil {
			return err
		}
		if err := forget(near, far, inner.Index); err != nil {
			return err
		}
	}
	return j.Near(k)
}

// forget has the host forget at which MAC address it knew the addresses of a container's link.
func forget(near, far *link.Handle, inner int) error {
	addresses, err := far.Addresses(inner)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		known, err := near.Neighbours(a.Addr())
		if err != nil {
			return err
		}
		for _, n := range known {
			if err := near.DeleteNeighbour(n); err != nil && !errors.Is(err, link.ErrNotFound) {
				return err
			}
		}
	}
	return nil
}

// Remove does nothing: the link goes with its container.
func (Join) Remove(context.Context, *host.Kernel) error { return nil }

// Verify compares the link with the step.
func (j Join) Verify(k *host.Kernel) error { return j.Agrees(k, j) }
