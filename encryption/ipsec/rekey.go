package ipsec

import (
	"context"
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/ipsec"
)

// last is the last stage of a renewal of the kernel's keys.
const last = 2

// Rekey has charon agree on new associations with each peer of a higher number. The kernel gets those that follow from
// the lab's secret, in stages, see [ipsec.RekeyKernel].
func (d Device) Rekey(ctx context.Context, k *host.Kernel, stage int) (more bool, err error) {
	var was deviceWas
	if ok, err := k.Kept(&was); err != nil || !ok {
		return false, err
	}
	config, err := d.config(k, was.Epoch)
	if err != nil {
		return false, err
	}
	if was.Impl == kernel {
		return d.rekeyKernel(k, was, config, stage)
	}
	r := k.Running(name)
	if r == nil || stage > 0 {
		return false, nil
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

func (d Device) rekeyKernel(k *host.Kernel, was deviceWas, old ipsec.Config, stage int) (more bool, err error) {
	if stage > last {
		return false, nil
	}
	now, err := d.config(k, was.Epoch+1)
	if err != nil {
		return false, err
	}
	if err := k.Do("", func() error { return ipsec.RekeyKernel(old, now, stage) }); err != nil {
		return false, err
	}
	if stage < last {
		return true, nil
	}
	was.Epoch++
	return false, k.Keep(was)
}
