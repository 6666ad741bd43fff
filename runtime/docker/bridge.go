package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/runtime"
)

// A Bridge is a network of Docker's driver bridge: a bridge with a gateway, forwarding, and the rules of the firewall.
// The bridge gets the name and the MAC address of the plan.
type Bridge struct {
	Name string `json:"name"`
	MAC  string `json:"mac"`
	MTU  int    `json:"mtu"`
	// Gateways are the addresses of the bridge, at most one of each family, in CIDR notation.
	Gateways []string `json:"gateways"`
}

// Kind returns "docker-bridge".
func (Bridge) Kind() string { return "docker-bridge" }

// String describes the step in plain words.
func (b Bridge) String() string {
	return fmt.Sprintf("network of Docker by bridge %s, mac %s, mtu %d, with %s", b.Name, b.MAC, b.MTU,
		strings.Join(b.Gateways, ", "))
}

// bridge is what has to stand.
func (b Bridge) bridge() host.Bridge {
	return host.Bridge{Name: b.Name, MAC: b.MAC, MTU: b.MTU, Snooping: true, Addresses: b.Gateways}
}

// Apply makes the network.
func (b Bridge) Apply(ctx context.Context, k *host.Kernel) (err error) {
	args := []string{
		"network", "create", "--driver", "bridge", "--opt", "com.docker.network.bridge.name=" + b.Name,
		"--opt", "com.docker.network.driver.mtu=" + strconv.Itoa(b.MTU),
	}
	for _, gateway := range b.Gateways {
		at, err := netip.ParsePrefix(gateway)
		if err != nil {
			return fmt.Errorf("gateway %q: %w", gateway, err)
		}
		if at.Addr().Is6() {
			args = append(args, "--ipv6")
		}
		args = append(args, "--subnet", at.Masked().String(), "--gateway", at.Addr().String())
	}
	cmd, err := command(ctx, k, append(args, b.Name)...)
	if err != nil {
		return err
	}
	if err := k.Keep(struct{}{}); err != nil {
		return err
	}
	if err := runtime.Run(cmd); err != nil {
		return err
	}
	if err := address(k, "", b.Name, b.MAC); err != nil {
		return errors.Join(err, b.Remove(context.WithoutCancel(ctx), k))
	}
	return nil
}

// address gives a link its MAC address.
func address(k *host.Kernel, ns, name, mac string) error {
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	h, err := k.Links(ns)
	if err != nil {
		return err
	}
	l, err := h.ByName(name)
	if err != nil {
		return err
	}
	return h.SetMAC(l.Index, hardware)
}

// Remove removes the network.
func (b Bridge) Remove(ctx context.Context, k *host.Kernel) error {
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
	cmd, err := command(ctx, k, "network", "rm", b.Name)
	if err != nil {
		return err
	}
	if err := runtime.Run(cmd); err != nil && !strings.Contains(strings.ToLower(err.Error()), "no such network") {
		return err
	}
	return nil
}

// Verify compares the bridge with the step.
func (b Bridge) Verify(k *host.Kernel) error { return b.bridge().Verify(k) }

// A Join connects a container to a [Bridge]. Docker makes its links, addresses and routes. The links get the names and
// the MAC address of the plan.
type Join struct {
	Container string `json:"container"`
	Namespace string `json:"namespace"`
	Bridge    string `json:"bridge"`
	// Link is the link on the host, and Inner that of the container.
	Link  string `json:"link"`
	Inner string `json:"inner"`
	MAC   string `json:"mac"`
	MTU   int    `json:"mtu"`
	// Addresses are those of Inner, at most one of each family, in CIDR notation.
	Addresses []string `json:"addresses"`
}

// Kind returns "docker-join".
func (Join) Kind() string { return "docker-join" }

// String describes the step in plain words.
func (j Join) String() string {
	return fmt.Sprintf("docker container %s on %s by %s, with %s, mac %s", j.Container, j.Bridge, j.Link,
		strings.Join(j.Addresses, ", "), j.MAC)
}

// veth is what has to stand. Docker chooses the MAC address of the host's end.
func (j Join) veth() host.Veth {
	return host.Veth{
		Name: j.Link, MTU: j.MTU, Master: j.Bridge, PeerNS: j.Namespace, PeerName: j.Inner, PeerMAC: j.MAC,
		PeerAddresses: j.Addresses,
	}
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
	connect, err := command(ctx, k, append(args, j.Bridge, j.Container)...)
	if err != nil {
		return err
	}
	if err := runtime.Run(leave); err != nil {
		return err
	}
	if err := runtime.Run(connect); err != nil {
		return err
	}
	return j.name(k)
}

// name gives the links the names and the address of the plan.
func (j Join) name(k *host.Kernel) error {
	if err := address(k, j.Namespace, j.Inner, j.MAC); err != nil {
		return err
	}
	far, err := k.Links(j.Namespace)
	if err != nil {
		return err
	}
	inner, err := far.ByName(j.Inner)
	if err != nil {
		return err
	}
	near, err := k.Links("")
	if err != nil {
		return err
	}
	if err := forget(near, far, inner.Index); err != nil {
		return err
	}
	return near.Rename(inner.Peer, j.Link)
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

// Verify compares both ends of the link with the step.
func (j Join) Verify(k *host.Kernel) error { return j.veth().Verify(k) }
