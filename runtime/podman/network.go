package podman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// A Network is a network of Podman, by netavark's driver bridge or macvlan. Podman notes it; netavark makes what it
// needs in the kernel with the first container.
type Network struct {
	// Driver is the type of the links that containers get: "veth", for the driver bridge, or "macvlan".
	Driver string `json:"driver"`
	// Link is the bridge that netavark makes, or the link of the host below those of containers. It is the name of the
	// network, too.
	Link string `json:"link"`
	// Mode is that of macvlan links, as in ip-link(8).
	Mode string `json:"mode,omitempty"`
	MTU  int    `json:"mtu,omitempty"`
	// Gateways are the addresses of the bridge, at most one of each family, in CIDR notation. Macvlan links have none:
	// their containers get no default route.
	Gateways []string `json:"gateways,omitempty"`
	// Ranges are those of the containers, in CIDR notation.
	Ranges []string `json:"ranges"`
}

// bridged is the network of a bridge.
func bridged(b host.Bridge) (Network, error) {
	n := Network{Driver: runtime.TypeVeth, Link: b.Name, MTU: b.MTU, Gateways: b.Addresses}
	return n, n.within(b.Addresses)
}

// above is the network of macvlan links above another one.
func above(l runtime.Link) (Network, error) {
	n := Network{Driver: l.Type, Link: l.Lower, Mode: l.Mode, MTU: l.MTU}
	return n, n.within(l.Addresses)
}

// within adds the ranges of addresses.
func (n *Network) within(addresses []string) error {
	for _, a := range addresses {
		at, err := netip.ParsePrefix(a)
		if err != nil {
			return fmt.Errorf("address %q: %w", a, err)
		}
		n.Ranges = append(n.Ranges, at.Masked().String())
	}
	return nil
}

// Kind returns "podman-network".
func (Network) Kind() string { return "podman-network" }

// String describes the step in plain words.
func (n Network) String() string {
	if n.Driver == runtime.TypeVeth {
		return fmt.Sprintf("network of Podman by bridge %s, mtu %d, with %s", n.Link, n.MTU, strings.Join(n.Gateways, ", "))
	}
	return fmt.Sprintf("network of Podman by %s, mode %s, over %s, mtu %d, with %s", n.Driver, n.Mode, n.Link, n.MTU,
		strings.Join(n.Ranges, ", "))
}

// args are the arguments of Podman that make it.
func (n Network) args() ([]string, error) {
	args := []string{"network", "create", "--disable-dns"}
	if n.Driver == runtime.TypeVeth {
		args = append(args, "--driver", "bridge")
	} else {
		// Without a gateway, of which an internal network has none, netavark adds no default route.
		args = append(args, "--driver", n.Driver, "--opt", "parent="+n.Link, "--opt", "mode="+n.Mode, "--internal")
	}
	if n.MTU != 0 {
		args = append(args, "--opt", "mtu="+strconv.Itoa(n.MTU))
	}
	if slices.ContainsFunc(n.Ranges, func(r string) bool { return strings.Contains(r, ":") }) {
		args = append(args, "--ipv6")
	}
	for i, r := range n.Ranges {
		args = append(args, "--subnet", r)
		if i < len(n.Gateways) {
			at, err := netip.ParsePrefix(n.Gateways[i])
			if err != nil {
				return nil, fmt.Errorf("gateway %q: %w", n.Gateways[i], err)
			}
			args = append(args, "--gateway", at.Addr().String())
		}
	}
	return append(args, n.Link), nil
}

// Apply makes the network.
func (n Network) Apply(ctx context.Context, k *host.Kernel) error {
	args, err := n.args()
	if err != nil {
		return err
	}
	cmd, err := command(ctx, k, args...)
	if err != nil {
		return err
	}
	if err := k.Keep(struct{}{}); err != nil {
		return err
	}
	if err := runtime.Run(cmd); err != nil {
		return err
	}
	if n.Driver != runtime.TypeVeth {
		return nil
	}
	if err := n.name(k); err != nil {
		return errors.Join(err, n.Remove(ctx, k))
	}
	return nil
}

// noted is where Podman notes the network.
func (n Network) noted(k *host.Kernel) (string, error) {
	at, err := k.RunDir(dir)
	return filepath.Join(at, networks, n.Link+".json"), err
}

// name gives the bridge its name in Podman's note: 'podman network create' has no option for it before Podman 4.4.
func (n Network) name(k *host.Kernel) error {
	file, err := n.noted(k)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var note map[string]any
	if err := json.Unmarshal(text, &note); err != nil {
		return fmt.Errorf("read the network %s of Podman: %w", n.Link, err)
	}
	note["network_interface"] = n.Link
	if text, err = json.Marshal(note); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// Remove removes the network. Netavark has removed the bridge with the last container.
func (n Network) Remove(_ context.Context, k *host.Kernel) error {
	var none struct{}
	if kept, err := k.Kept(&none); err != nil || !kept {
		return err
	}
	file, err := n.noted(k)
	if err != nil {
		return err
	}
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Verify wants Podman to know the network.
func (n Network) Verify(k *host.Kernel) error {
	file, err := n.noted(k)
	if err != nil {
		return err
	}
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	d := &host.DriftError{Step: n.String()}
	d.Add("network "+n.Link+" of Podman", "present", "absent")
	return d
}

// A Bridge is the bridge of a [Network], which netavark has made with the containers. It gets the MAC address of the
// plan.
type Bridge host.Bridge

// Kind returns "podman-bridge".
func (Bridge) Kind() string { return "podman-bridge" }

// String describes the step in plain words.
func (b Bridge) String() string { return host.Bridge(b).String() + ", made by Podman" }

// Apply gives the bridge its MAC address.
func (b Bridge) Apply(_ context.Context, k *host.Kernel) error {
	return runtime.SetMAC(k, "", b.Name, b.MAC)
}

// Remove does nothing: the bridge goes with the last container.
func (Bridge) Remove(context.Context, *host.Kernel) error { return nil }

// Verify compares the bridge with the step.
func (b Bridge) Verify(k *host.Kernel) error { return host.Bridge(b).Verify(k) }
