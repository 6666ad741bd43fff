package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/host"
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
		args = append(args, ranged(at.Masked())...)
		args = append(args, "--gateway", at.Addr().String())
	}
	if err := create(ctx, k, append(args, b.Name)); err != nil {
		return err
	}
	if err := runtime.SetMAC(k, "", b.Name, b.MAC); err != nil {
		return errors.Join(err, b.Remove(context.WithoutCancel(ctx), k))
	}
	return nil
}

// Remove removes the network.
func (b Bridge) Remove(ctx context.Context, k *host.Kernel) error { return remove(ctx, k, b.Name) }

// Verify compares the bridge with the step.
func (b Bridge) Verify(k *host.Kernel) error { return b.bridge().Verify(k) }
