package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/ethtool"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysfs"
	"github.com/nettoll/nettoll/internal/testnet"
)

// state holds what a LinkSettings can change in a link.
type state struct {
	Queue    link.Queue
	Offloads map[ethtool.Offload]bool
	Files    map[string]string
}

func stateOf(t *testing.T, k *host.Kernel, ns, name string) state {
	t.Helper()
	s := state{Offloads: map[ethtool.Offload]bool{}, Files: map[string]string{}}
	if err := k.Do(ns, func() error {
		h, err := k.Links(ns)
		if err != nil {
			return err
		}
		l, err := h.ByName(name)
		if err != nil {
			return err
		}
		if s.Queue, err = h.Queue(l.Index); err != nil {
			return err
		}
		for _, o := range ethtool.Offloads() {
			if s.Offloads[o], err = ethtool.Get(name, o); err != nil {
				return err
			}
		}
		files, err := sysfs.Open()
		if err != nil {
			return err
		}
		defer files.Close()
		for _, f := range []string{"queues/rx-0/rps_cpus", "queues/rx-0/rps_flow_cnt", "brport/hairpin_mode"} {
			if value, err := files.Read(name, f); err == nil {
				s.Files[f] = value
			}
		}
		return nil
	}); err != nil {
		testnet.Skip(t, err)
	}
	return s
}

// TestLinkSettings changes the settings of both ends of a container's link, reads them back, and checks that undoing
// restores the former ones.
func TestLinkSettings(t *testing.T) {
	k, _ := kernel(t, nil)
	var under host.Stack
	testnet.Skip(t, under.Apply(t.Context(), k, lab()))
	defer func() {
		if err := under.Undo(context.Background(), k); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		text string
		step host.LinkSettings
	}{
		{
			"settings of v0: queue of 500, rps 0, rfs 64, gro on, tx off, rx off, hairpin",
			host.LinkSettings{
				Name: "v0", Queue: "500", RPS: "0", RFS: "64", On: []string{"gro"}, Off: []string{"tx", "rx"},
				Hairpin: true,
			},
		},
		{"settings of eth0 in c: no queue, rps all, tso off, gso off", host.LinkSettings{
			NS: "c", Name: "eth0", Queue: "0", RPS: "all", Off: []string{"tso", "gso"},
		}},
	} {
		t.Run(c.text, func(t *testing.T) {
			if c.step.String() != c.text {
				t.Errorf("it is said as %q", c.step)
			}
			before := stateOf(t, k, c.step.NS, c.step.Name)
			var s host.Stack
			testnet.Skip(t, s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{c.step}}))
			if err := c.step.Verify(k); err != nil {
				t.Error(err)
			}
			now := stateOf(t, k, c.step.NS, c.step.Name)
			for _, o := range c.step.Off {
				if now.Offloads[ethtool.Offload(o)] {
					t.Errorf("%s is on: %+v", o, now)
				}
			}
			if (now.Queue.Kind == "pfifo_fast") != (c.step.Queue != "0") || c.step.RFS != "" &&
				now.Files["queues/rx-0/rps_flow_cnt"] != c.step.RFS ||
				strings.Trim(now.Files["queues/rx-0/rps_cpus"], "0,") == "" || c.step.Hairpin &&
				now.Files["brport/hairpin_mode"] != "1" {
				t.Errorf("it is %+v", now)
			}
			for range 2 {
				if err := s.Undo(t.Context(), k); err != nil {
					t.Error(err)
				}
			}
			if diff := cmp.Diff(before, stateOf(t, k, c.step.NS, c.step.Name)); diff != "" {
				t.Errorf("undone, it is not as it was (-before +after):\n%s", diff)
			}
			if _, ok := errors.AsType[*host.DriftError](c.step.Verify(k)); !ok {
				t.Error("undone, it is verified all the same")
			}
		})
	}
	facts := under.Facts(k)
	for name, want := range map[string]string{
		"br0": "bridge, mtu 1400, qdisc noqueue, txqueuelen 1000, ",
		"v0": "veth, mtu 1400, qdisc noqueue, txqueuelen 1000, tx on, rx on, tso on, gso on, gro off, queues rx 1 " +
			"tx 1, rps 0, rfs 0",
		"eth0 in c": "veth, mtu 1400, qdisc noqueue, txqueuelen 1000, tx on, rx on, tso on, gso on, gro off, queues rx 1 " +
			"tx 1, rps 0, rfs 0",
	} {
		if !strings.HasPrefix(facts[name], want) {
			t.Errorf("%s is %q, want %q", name, facts[name], want)
		}
	}
	if _, all := facts["eth0 in m"]; all {
		t.Errorf("more than the first container is described: %q", facts)
	}
	for _, c := range []struct {
		step host.LinkSettings
		want string
	}{
		{host.LinkSettings{Name: "v0", Queue: "many"}, `invalid queue length "many"`},
		{host.LinkSettings{Name: "v0", RPS: "1-0"}, `invalid list of CPUs "1-0"`},
		{host.LinkSettings{Name: "v0", On: []string{"wings"}}, `unknown offload "wings"`},
		{host.LinkSettings{Name: "v0", On: []string{"tx"}, Off: []string{"tx"}}, `offload "tx" is both on and off`},
		{host.LinkSettings{Name: "none", Queue: "0"}, "not found"},
		{host.LinkSettings{Name: "lo", Hairpin: true}, "brport/hairpin_mode"},
	} {
		before := stateOf(t, k, "", "v0")
		if err := c.step.Apply(t.Context(), k); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.step, err, c.want)
		}
		if diff := cmp.Diff(before, stateOf(t, k, "", "v0")); diff != "" {
			t.Errorf("%s failed and left something (-before +after):\n%s", c.step, diff)
		}
	}
	if err := (host.LinkSettings{RFS: "256"}).Check(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("flows: %v", err)
	}
	if err := (host.LinkSettings{RFS: "0"}).Check(); err != nil {
		t.Errorf("no flows: %v", err)
	}
}
