package cni

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// A Flanneld runs Flannel's daemon on a host. The daemon takes the range of the plan, and tells the others by etcd; it
// sets the routes to their ranges, and rules of iptables, as it does by default.
type Flanneld struct {
	// Program is its path, or its name in PATH.
	Program string `json:"program"`
	// Etcd is where it reaches etcd: "http://198.18.0.1:2379".
	Etcd string `json:"etcd"`
	// Backend is "vxlan" or "host-gw".
	Backend string `json:"backend"`
	// Uplink is the host's link to the others.
	Uplink string `json:"uplink"`
	// MTU in bytes that it has to find for containers.
	MTU int `json:"mtu"`
	// Own is this host, and Peers are the others.
	Own   Peer   `json:"own"`
	Peers []Peer `json:"peers"`
}

// A Peer is a host as flanneld knows it.
type Peer struct {
	// Range is that of its containers: "10.2.0.0/16".
	Range string `json:"range"`
	// Address is that of the host on the underlay.
	Address string `json:"address"`
}

// Kind returns "cni-flanneld".
func (Flanneld) Kind() string { return "cni-flanneld" }

// String describes the step in plain words.
func (d Flanneld) String() string {
	return fmt.Sprintf("flanneld (%s), backend %s, range %s at %s, mtu %d, etcd %s; others: %s", d.Program, d.Backend,
		d.Own.Range, d.Own.Address, d.MTU, d.Etcd, strings.Join(d.ranges(), ", "))
}

// daemonState is what a Flanneld keeps.
type daemonState struct {
	Process host.Process `json:"process"`
	// Made is what is on the host since.
	Made state `json:"made"`
}

// gate is the first address of the range, as the daemon writes it: "10.1.0.1/16".
func (d Flanneld) gate() (string, error) {
	p, err := netip.ParsePrefix(d.Own.Range)
	if err != nil {
		return "", fmt.Errorf("range of flanneld: %w", err)
	}
	return netip.PrefixFrom(p.Addr().Next(), p.Bits()).String(), nil
}

// Apply starts the daemon, and waits until it has the range of the plan.
func (d Flanneld) Apply(ctx context.Context, k *host.Kernel) error {
	path, err := located(d.Program, daemon)
	if err != nil {
		return err
	}
	dir, err := k.RunDir(flannel)
	if err != nil {
		return err
	}
	before, err := look(k, dir)
	if err != nil {
		return err
	}
	kept := daemonState{}
	if err = d.wish(dir); err == nil {
		kept.Process, err = d.start(ctx, k, path, dir)
	}
	if err == nil {
		var after state
		if after, err = look(k, dir); err == nil {
			kept.Made = after.since(before)
			err = k.Keep(kept)
		}
	}
	if err == nil {
		return nil
	}
	// whatever it has made before it failed
	if after, lerr := look(k, dir); lerr == nil {
		kept.Made = after.since(before)
	}
	return errors.Join(err, d.remove(k, kept))
}

// wish writes which range the daemon takes: that which it had before, as it believes.
func (d Flanneld) wish(dir string) error {
	gate, err := d.gate()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, subnetFile), fmt.Appendf(nil, "FLANNEL_NETWORK=%s\nFLANNEL_SUBNET=%s\n", whole,
		gate), 0o600)
}

// start starts the daemon, and waits for what it says to its plugin.
func (d Flanneld) start(ctx context.Context, k *host.Kernel, path, dir string) (host.Process, error) {
	file := filepath.Join(dir, subnetFile)
	version, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return host.Process{}, fmt.Errorf("%s -version: %w: %s", path, err, bytes.TrimSpace(version))
	}
	r, err := k.Start(host.Program{Name: flanneld, Args: []string{
		path, "-etcd-endpoints", d.Etcd, "-iface", d.Own.Address, "-subnet-file", file, "-ip-masq",
	}})
	if err != nil {
		return host.Process{}, err
	}
	fail := func(err error) (host.Process, error) { return host.Process{}, errors.Join(err, r.Stop(grace)) }
	for deadline := time.Now().Add(startLimit); ; time.Sleep(pause) {
		said, err := said(file)
		if err != nil {
			return fail(err)
		}
		if _, ready := said["FLANNEL_MTU"]; ready {
			if differs := d.differs(said); differs != nil {
				return fail(fmt.Errorf("flanneld has %s %q, but the plan %q", differs.What, differs.Got, differs.Want))
			}
			if err := ruled(ctx, k, deadline); err != nil {
				return fail(err)
			}
			k.Implementation("network", fmt.Sprintf("kernel (%s %s)", flanneld, bytes.TrimSpace(version)))
			return r.Process(), nil
		}
		if died := r.Died(); died != nil {
			return fail(died)
		}
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
		if time.Now().After(deadline) {
			return fail(fmt.Errorf("flanneld is not ready after %v: see its log", startLimit))
		}
	}
}

// ruled waits until the daemon has set its rules: versions differ in whether it has when it says that it is ready.
func ruled(ctx context.Context, k *host.Kernel, deadline time.Time) error {
	// the last rule of each table is there with the others: iptables-restore puts all in at once
	for _, r := range [][3]string{{"filter", "FORWARD", "FLANNEL-FWD"}, {"nat", "POSTROUTING", "FLANNEL-POSTRTG"}} {
		for {
			var rules []byte
			if err := k.Do("", func() (err error) {
				rules, err = exec.CommandContext(ctx, "iptables", "-w", "-t", r[0], "-S", r[1]).Output()
				return err
			}); err != nil {
				return fmt.Errorf("iptables -t %s -S %s: %w", r[0], r[1], err)
			}
			if bytes.Contains(rules, []byte("-j "+r[2])) {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("flanneld has not set its rule in chain %s of table %s after %v", r[1], r[0], startLimit)
			}
			time.Sleep(pause)
		}
	}
	return nil
}

// said reads the file that the daemon writes for its plugin.
func said(file string) (map[string]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			all[name] = value
		}
	}
	return all, nil
}

// differs compares what the daemon says to its plugin with the plan.
func (d Flanneld) differs(said map[string]string) *linux.Difference {
	gate, err := d.gate()
	if err != nil {
		gate = err.Error()
	}
	for _, v := range [][2]string{
		{"FLANNEL_NETWORK", whole},
		{"FLANNEL_SUBNET", gate},
		{"FLANNEL_MTU", fmt.Sprint(d.MTU)},
		{"FLANNEL_IPMASQ", "true"},
	} {
		if got := said[v[0]]; got != v[1] {
			return &linux.Difference{What: v[0], Want: v[1], Got: got}
		}
	}
	return nil
}

// Remove ends the daemon, and removes what it has made: it leaves its device, its routes and rules.
func (d Flanneld) Remove(_ context.Context, k *host.Kernel) error {
	var kept daemonState
	if ok, err := k.Kept(&kept); !ok {
		return err
	}
	return d.remove(k, kept)
}

func (d Flanneld) remove(k *host.Kernel, kept daemonState) error {
	errs := []error{k.Stop(kept.Process, grace)}
	h, err := k.Links("")
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, p := range d.Peers {
		to, err := netip.ParsePrefix(p.Range)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		routes, err := h.Routes(to)
		errs = append(errs, err)
		for _, r := range routes {
			if err := h.DeleteRoute(r); !errors.Is(err, link.ErrNotFound) {
				errs = append(errs, err)
			}
		}
	}
	dir, err := k.RunDir(flannel)
	if err == nil {
		err = errors.Join(kept.Made.clear(k, dir), os.RemoveAll(dir))
	}
	return errors.Join(append(errs, err)...)
}

// meeting is how long flanneld of all hosts may take to know each other.
const meeting = 5 * time.Second

// Verify wants the daemon with its device, and the routes to all other hosts. It waits for those, which the daemon sets
// when that of the other host has told its range.
func (d Flanneld) Verify(k *host.Kernel) error {
	drift := func(list ...linux.Difference) error { return &host.DriftError{Step: d.String(), Drifts: list} }
	if missing := notRunning(k, flanneld); missing != nil {
		return drift(*missing)
	}
	dir, err := k.RunDir(flannel)
	if err != nil {
		return err
	}
	said, err := said(filepath.Join(dir, subnetFile))
	if err != nil {
		return drift(linux.Difference{What: "file " + subnetFile, Want: linux.Present, Got: err.Error()})
	}
	if differs := d.differs(said); differs != nil {
		return drift(*differs)
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(meeting); ; time.Sleep(pause) {
		list, err := d.found(h)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return drift(list...)
		}
	}
}

// found returns how the device and the routes of the daemon differ from the plan.
func (d Flanneld) found(h *link.Handle) (list []linux.Difference, err error) {
	differ := func(what, want, got string) {
		if want != got {
			list = append(list, linux.Difference{What: what, Want: want, Got: got})
		}
	}
	name := d.Uplink
	if d.Backend == vxlan {
		name = device
	}
	l, err := h.ByName(name)
	if errors.Is(err, link.ErrNotFound) {
		differ("link "+name, linux.Present, linux.Absent)
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	at := map[string]string{} // the addresses of hosts by the MAC addresses of their devices
	if d.Backend == vxlan {
		v, err := h.VXLAN(name)
		if err != nil {
			return nil, err
		}
		differ("link "+name, "up", map[bool]string{true: "up", false: "down"}[l.Up])
		differ("mtu of "+name, fmt.Sprint(d.MTU), fmt.Sprint(v.MTU))
		differ("id of "+name, fmt.Sprint(vni), fmt.Sprint(v.ID))
		differ("port of "+name, fmt.Sprint(vxlanPort), fmt.Sprint(v.Port))
		differ("source address of "+name, d.Own.Address, v.Local.String())
		entries, err := h.FDB(l.Index)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			at[e.MAC.String()] = e.At.String()
		}
	}
	for _, p := range d.Peers {
		to, err := netip.ParsePrefix(p.Range)
		if err != nil {
			return nil, err
		}
		via := p.Address
		if d.Backend == vxlan {
			via = to.Addr().String()
		}
		want := fmt.Sprintf("via %s through %s", via, name)
		routes, err := h.Routes(to)
		if err != nil {
			return nil, err
		}
		got := linux.Absent
		for _, r := range routes {
			got = fmt.Sprintf("via %s through %s", r.Via, name)
			if r.Link != l.Index {
				got = fmt.Sprintf("via %s through link %d", r.Via, r.Link)
			}
		}
		differ("route to "+p.Range, want, got)
		if d.Backend != vxlan {
			continue
		}
		behind, err := h.Neighbours(to.Addr())
		if err != nil {
			return nil, err
		}
		where := linux.Absent
		for _, n := range behind {
			if n.Link == l.Index {
				where = at[n.MAC.String()]
			}
		}
		differ("host behind "+to.Addr().String(), p.Address, where)
	}
	return list, nil
}
