package wireguard

import (
	"context"
	"fmt"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/wireguard"
)

const (
	// again is how long a handshake may take before it is asked for once more. The library ignores that for 5 s after a
	// handshake that it has begun.
	again = 100 * time.Millisecond
	// look is between two looks at whether there was one.
	look = time.Millisecond
)

// Rekey has the process make a handshake with each peer of a lower number: where traffic comes from host 1, that has
// begun the last one, and the library would begin no other for 5 s. The kernel's device cannot be asked.
func (d Device) Rekey(ctx context.Context, k *host.Kernel, _ int) (more bool, err error) {
	r := k.Running(name)
	if r == nil {
		return false, &linux.UnsupportedError{
			What: "renew the keys of " + d.Name, Missing: "a way to ask the kernel for a handshake: it makes one every 120 s",
		}
	}
	config, err := d.config(k)
	if err != nil {
		return false, err
	}
	before, err := wireguard.Get(r.Control())
	if err != nil {
		return false, err
	}
	for i, p := range d.Peers {
		if p.Host > d.Host {
			continue
		}
		key := config.Peers[i].Key
		if err := renew(ctx, r, key, before.Last(key)); err != nil {
			return false, fmt.Errorf("handshake with host %d: %w", p.Host, err)
		}
	}
	return false, nil
}

// renew asks for handshakes until there was one with that peer after that time.
func renew(ctx context.Context, r *host.Running, key wireguard.Public, last time.Time) error {
	var asked time.Time
	for {
		now, err := wireguard.Get(r.Control())
		if err != nil {
			return err
		}
		if now.Last(key).After(last) {
			return nil
		}
		if time.Since(asked) > again {
			asked = time.Now()
			if err := r.Signal(wireguard.SignalRenew); err != nil {
				return err
			}
		}
		select {
		case <-time.After(look):
		case <-r.Done():
			return r.Died()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
