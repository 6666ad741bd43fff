package ipvlan

import (
	"context"
	"net"
	"os"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// A Link makes an ipvlan link that is up. Its modes are "l2", "l3" and "l3s", as in ip-link(8): they select where its
// packets are routed. All ipvlan links on one link have the same mode and the MAC address of the link below, so MAC is
// "". Their addresses are unique among them.
type Link struct{ host.Upper }

// Kind returns "ipvlan".
func (Link) Kind() string { return "ipvlan" }

// String describes the step in plain words.
func (l Link) String() string { return "ipvlan " + l.Upper.String() }

// Apply makes the link in its namespace.
func (l Link) Apply(ctx context.Context, k *host.Kernel) error {
	return l.Make(ctx, k, func(h *link.Handle, ns *os.File, lower int, _ net.HardwareAddr) error {
		return h.AddIPVlan(link.IPVlan{Name: l.Name, NS: ns, Lower: lower, Mode: l.Mode, MTU: l.MTU})
	})
}

// Verify compares the link with the step.
func (l Link) Verify(k *host.Kernel) error { return l.Compare(k, l, "ipvlan") }
