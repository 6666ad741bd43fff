package ipsec

import (
	"context"
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/ipsec"
)

// Rekey has charon agree on new associations with each peer of a higher number. The kernel has no one to agree.
func (d Device) Rekey(ctx context.Context, k *host.Kernel, _ int) (more bool, err error) {
	r := k.Running(name)
	if r == nil {
		return false, &linux.UnsupportedError{
			What: "renew the keys of " + d.Name, Missing: "a program that agrees on keys: those of impl=kernel are static",
		}
	}
	config, err := d.config(k)
	if err != nil {
		return false, err
	}
	dir, err := k.RunDir(name)
	if err != nil {
		return false, err
	}
	for _, p := range config.Peers {
		if p.Host < d.Host {
			continue
		}
		if err := (ipsec.Instance{Dir: dir}).Rekey(ctx, p, r.Done()); err != nil {
			return false, fmt.Errorf("rekey with host %d: %w", p.Host, err)
		}
	}
	return false, nil
}
