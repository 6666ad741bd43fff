package podman

import (
	"context"
	"net/netip"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// A Link is the link of a container, which Podman has netavark make with the container. Its step comes after those of
// all containers: it waits until the container can use its addresses.
type Link runtime.Link

// Kind returns "podman-link".
func (Link) Kind() string { return "podman-link" }

// String describes the step in plain words.
func (l Link) String() string { return runtime.Link(l).Described("Podman") }

// flag is the value of the flag --network of 'podman run'.
func (l Link) flag() (string, error) {
	network := l.Master
	if l.Type != runtime.TypeVeth {
		network = l.Lower
	}
	options := []string{"interface_name=" + l.Name}
	if l.MAC != "" {
		options = append(options, "mac="+l.MAC)
	}
	for _, a := range l.Addresses {
		at, err := netip.ParsePrefix(a)
		if err != nil {
			return "", err
		}
		key := "ip="
		if at.Addr().Is6() {
			key = "ip6="
		}
		options = append(options, key+at.Addr().String())
	}
	return network + ":" + strings.Join(options, ","), nil
}

// Apply waits until the container can use the addresses.
func (l Link) Apply(ctx context.Context, k *host.Kernel) error { return runtime.Link(l).Wait(ctx, k) }

// Remove does nothing: the link goes with its container.
func (Link) Remove(context.Context, *host.Kernel) error { return nil }

// Verify compares the link with what nettoll would have made.
func (l Link) Verify(k *host.Kernel) error { return runtime.Link(l).Agrees(k, l) }
