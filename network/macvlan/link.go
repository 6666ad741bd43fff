package macvlan

import (
	"context"
	"net"
	"os"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// A Link makes a macvlan link that is up. Its modes are "bridge", "private", "vepa" and "passthru", as in ip-link(8):
// they select how macvlan links on one link reach each other.
type Link struct{ host.Upper }

// Kind returns "macvlan".
func (Link) Kind() string { return "macvlan" }

// String describes the step in plain words.
func (l Link) String() string { return "macvlan " + l.Upper.String() }

// Apply makes the link in its namespace.
func (l Link) Apply(ctx context.Context, k *host.Kernel) error {
	return l.Make(ctx, k, func(h *link.Handle, ns *os.File, lower int, mac net.HardwareAddr) error {
		return h.AddMacvlan(link.Macvlan{Name: l.Name, NS: ns, Lower: lower, Mode: l.Mode, MAC: mac, MTU: l.MTU})
	})
}

// Verify compares the link with the step.
func (l Link) Verify(k *host.Kernel) error { return l.Compare(k, l, "macvlan") }
