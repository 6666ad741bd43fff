package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/network"
)

// An Add has the plugins of a conflist join a container.
type Add struct {
	Container string `json:"container"`
	// Conf is the conflist, as JSON.
	Conf string `json:"conf"`
	// Bin are the folders in which plugins are looked for.
	Bin []string `json:"bin"`
	// Addresses are those that the container has to get, in CIDR notation.
	Addresses []string `json:"addresses"`
	// MTU in bytes of its link.
	MTU int `json:"mtu"`
	// MAC is the address of its link, and Link and LinkMAC the name and the address of the host's link to it. "": it is
	// left as the plugin has it, or the host has no link to it.
	MAC     string `json:"mac,omitempty"`
	Link    string `json:"link,omitempty"`
	LinkMAC string `json:"link_mac,omitempty"`
	// Bridge and BridgeMAC are the name and the address of the bridge that the plugin makes for the first container of a
	// host, "" for none.
	Bridge    string `json:"bridge,omitempty"`
	BridgeMAC string `json:"bridge_mac,omitempty"`
	// Gateways are the addresses of the container's gateway, in CIDR notation: of the bridge, or else of the host's link.
	Gateways []string `json:"gateways,omitempty"`
	// Port is what the plugin "portmap" publishes; 0 for nothing.
	Port uint16 `json:"port,omitempty"`
	// Trial has the plugins join the container and part from it once before, and reports what they have left then.
	Trial bool `json:"trial,omitempty"`
}

// Kind returns "cni-add".
func (Add) Kind() string { return "cni-add" }

// String describes the step in plain words.
func (a Add) String() string {
	s := fmt.Sprintf("CNI ADD %s in %s by %s: %s, mtu %d", network.Inner, a.Container, a.plugins(),
		strings.Join(a.Addresses, " "), a.MTU)
	if a.MAC != "" {
		s += ", mac " + a.MAC
	}
	if a.Link != "" {
		s += fmt.Sprintf("; peer %s, mac %s", a.Link, a.LinkMAC)
	}
	if a.Bridge != "" {
		s += fmt.Sprintf("; bridge %s, mac %s", a.Bridge, a.BridgeMAC)
	}
	if a.Gateways != nil {
		s += "; gateway " + strings.Join(a.Gateways, " ")
	}
	if a.Port != 0 {
		s += fmt.Sprintf("; port %d published", a.Port)
	}
	if a.Trial {
		s += "; tried before"
	}
	return s
}

// plugins names those of the conflist, and where their addresses come from: "bridge+portmap with host-local".
func (a Add) plugins() string {
	var raw object
	if err := json.Unmarshal([]byte(a.Conf), &raw); err != nil {
		return "no conflist"
	}
	c := &conflist{raw: raw}
	types := c.types()
	if len(types) < 2 {
		return "no plugins"
	}
	return strings.Join(types[:len(types)-1], separator) + " with " + types[len(types)-1]
}

// UndoneFirst makes Add a [host.FirstUndone]: plugins find the container's namespace when they part from it.
func (Add) UndoneFirst() {}

// runDir is where plugins and library keep files, below that of a host's programs.
const runDir = "cni"

// added is what an Add keeps.
type added struct {
	// Made is what is on the host since.
	Made state `json:"made"`
	// Unchecked says that CHECK fails though nothing has changed.
	Unchecked bool `json:"unchecked,omitempty"`
}

// Apply calls ADD, and CHECK. Whatever fails, it leaves nothing.
func (a Add) Apply(ctx context.Context, k *host.Kernel) error {
	c, err := a.open(k)
	if err != nil {
		return err
	}
	before, err := look(k, c.dir)
	if err != nil {
		return err
	}
	if a.Trial {
		if err := a.try(ctx, k, c, before); err != nil {
			return err
		}
	}
	fail := func(err error) error {
		err = errors.Join(err, c.del(context.WithoutCancel(ctx)))
		after, lerr := look(k, c.dir)
		if lerr == nil {
			lerr = after.since(before).clear(k, c.dir)
		}
		return errors.Join(err, lerr)
	}
	if err := c.add(ctx); err != nil {
		return fail(err)
	}
	after, err := look(k, c.dir)
	if err != nil {
		return fail(err)
	}
	kept := added{Made: after.since(before)}
	// whether the host forwards is the plan's
	forwards := state{Variables: maps.Clone(kept.Made.Variables)}
	maps.DeleteFunc(forwards.Variables, func(key, _ string) bool { return !slices.Contains(forwardings(), key) })
	if err := forwards.reset(k); err != nil {
		return fail(err)
	}
	if err := c.check(ctx); err != nil {
		kept.Unchecked = true
		doubt(k, "CHECK of the CNI plugin %q fails right after ADD, so nettoll compares only links and addresses, itself",
			c.plugins.last)
	}
	if err := k.Keep(kept); err != nil {
		return fail(err)
	}
	return nil
}

// doubt reports a doubt once for each host.
func doubt(k *host.Kernel, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(k.Report().Doubts, text) {
		k.Doubt("%s", text)
	}
}

// try calls ADD and DEL, and reports and removes what is left of it then.
func (a Add) try(ctx context.Context, k *host.Kernel, c *call, before state) error {
	err := c.add(ctx)
	err = errors.Join(err, c.del(context.WithoutCancel(ctx)))
	after, lerr := look(k, c.dir)
	if lerr != nil {
		return errors.Join(err, lerr)
	}
	left := after.since(before)
	if text := left.String(); text != "" && err == nil {
		doubt(k, "after DEL of CNI the plugins have left on the host: %s", text)
	}
	return errors.Join(err, left.clear(k, c.dir))
}

// Remove calls DEL, and removes what the plugins leave. If DEL fails, because what it looks for was changed or is gone,
// all that ADD has made on the host goes all the same: the rest ends with the container.
func (a Add) Remove(ctx context.Context, k *host.Kernel) error {
	var kept added
	if ok, err := k.Kept(&kept); !ok {
		return err
	}
	c, err := a.open(k)
	if err != nil {
		return err
	}
	if c.stands() {
		if err := c.del(ctx); err != nil {
			doubt(k, "%s is removed without DEL: %v", a.Container, err)
		}
	}
	return kept.Made.clear(k, c.dir)
}

// Verify calls CHECK, and compares links and addresses with the step itself.
func (a Add) Verify(k *host.Kernel) error {
	for _, l := range a.links() {
		if err := l.Verify(k); err != nil {
			if drift, is := errors.AsType[*host.DriftError](err); is {
				return &host.DriftError{Step: a.String(), Drifts: drift.Drifts}
			}
			return err
		}
	}
	var kept added
	if ok, err := k.Kept(&kept); !ok || err != nil || kept.Unchecked {
		return err
	}
	c, err := a.open(k)
	if err != nil {
		return err
	}
	if err := c.check(context.Background()); err != nil {
		return &host.DriftError{Step: a.String(), Drifts: []linux.Difference{{
			What: "CHECK of CNI", Want: "no error", Got: err.Error(),
		}}}
	}
	return nil
}

// links are the links of the step as they have to be.
func (a Add) links() []host.Link {
	list := []host.Link{{
		NS: a.Container, Name: network.Inner, MAC: a.MAC, MTU: a.MTU, Addresses: a.Addresses, Up: true,
	}}
	if a.Link != "" {
		list = append(list, host.Link{Name: a.Link, MAC: a.LinkMAC, MTU: a.MTU, Up: true})
	}
	if a.Bridge != "" {
		list = append(list, host.Link{Name: a.Bridge, MAC: a.BridgeMAC, MTU: a.MTU, Up: true})
	}
	if a.Gateways != nil {
		list[len(list)-1].Addresses = a.Gateways
	}
	return list
}

// A call calls the plugins for one container.
type call struct {
	step    Add
	kernel  *host.Kernel
	dir     string
	cni     *libcni.CNIConfig
	plugins *executor
	list    *libcni.NetworkConfigList
	runtime *libcni.RuntimeConf
}

// open prepares calls of the plugins.
func (a Add) open(k *host.Kernel) (*call, error) {
	dir, err := k.RunDir(runDir)
	if err != nil {
		return nil, err
	}
	c := &call{step: a, kernel: k, dir: dir}
	text, err := a.conf(dir)
	if err != nil {
		return nil, err
	}
	if c.list, err = libcni.NetworkConfFromBytes(text); err != nil {
		return nil, fmt.Errorf("read the conflist: %w", err)
	}
	c.plugins = &executor{Exec: quiet(), call: c}
	c.cni = libcni.NewCNIConfigWithCacheDir(a.Bin, dir, c.plugins)
	c.runtime = &libcni.RuntimeConf{ContainerID: a.Container, NetNS: k.Path(a.Container), IfName: network.Inner}
	if a.Port != 0 {
		c.runtime.CapabilityArgs = map[string]any{"portMappings": mappings(a.Port)}
	}
	return c, nil
}

// conf returns the conflist with nettoll behind the first plugin, and with directories of the host.
func (a Add) conf(dir string) ([]byte, error) {
	var raw object
	if err := json.Unmarshal([]byte(a.Conf), &raw); err != nil {
		return nil, fmt.Errorf("read the conflist: %w", err)
	}
	list := (&conflist{raw: raw}).plugins()
	if len(list) == 0 {
		return nil, errors.New("read the conflist: it names no plugins")
	}
	if ipam, some := list[0]["ipam"].(object); some {
		ipam["dataDir"] = dir + "/ipam"
	}
	if text(list[0], "type") == flannel {
		list[0]["dataDir"], list[0]["subnetFile"] = dir+"/flannel", filepath.Join(filepath.Dir(dir), flannel, subnetFile)
	}
	plugins := []any{list[0], object{"type": self}}
	for _, p := range list[1:] {
		if text(p, "type") == tuning {
			p["dataDir"] = dir + "/tuning"
		}
		plugins = append(plugins, p)
	}
	raw["plugins"] = plugins
	return json.Marshal(raw)
}

// add calls ADD, and wants the addresses of the plan.
func (c *call) add(ctx context.Context) error {
	return c.kernel.Do("", func() error {
		result, err := c.cni.AddNetworkList(ctx, c.list, c.runtime)
		if err != nil {
			return fmt.Errorf("ADD of CNI: %w", reason(err))
		}
		return c.compare(result)
	})
}

// compare compares the addresses that a container has got with those of the plan.
func (c *call) compare(result types.Result) error {
	got, err := addressesOf(result)
	if err != nil {
		return err
	}
	want := slices.Sorted(slices.Values(c.step.Addresses))
	if slices.Equal(want, got) {
		return nil
	}
	for _, a := range got {
		if other := c.owner(a); other != "" && !slices.Contains(want, a) {
			return fmt.Errorf("ADD of CNI hands out address %s twice: to %s and to %s", a, other, c.step.Container)
		}
	}
	return fmt.Errorf("ADD of CNI gives %s %s, but its IPAM was asked for %s (hint: IPAM %q takes requests in "+
		"args.cni.ips)", c.step.Container, strings.Join(got, " and "), strings.Join(want, " and "), hostLocal)
}

// owner is another container that has got an address, "" for none.
func (c *call) owner(address string) string {
	all, err := c.cni.GetCachedAttachments("")
	if err != nil {
		return ""
	}
	for _, other := range all {
		if other.ContainerID == c.step.Container {
			continue
		}
		result, err := c.cni.GetNetworkListCachedResult(c.list, &libcni.RuntimeConf{
			ContainerID: other.ContainerID, IfName: other.IfName,
		})
		if err != nil || result == nil {
			continue
		}
		if has, err := addressesOf(result); err == nil && slices.Contains(has, address) {
			return other.ContainerID
		}
	}
	return ""
}

// addressesOf lists the addresses of a result.
func addressesOf(result types.Result) ([]string, error) {
	r, err := types100.NewResultFromResult(result)
	if err != nil {
		return nil, fmt.Errorf("read the result of CNI: %w", err)
	}
	var list []string
	for _, ip := range r.IPs {
		bits, _ := ip.Address.Mask.Size()
		a, ok := netip.AddrFromSlice(ip.Address.IP)
		if !ok {
			return nil, fmt.Errorf("read the result of CNI: invalid address %v", ip.Address)
		}
		list = append(list, netip.PrefixFrom(a.Unmap(), bits).String())
	}
	slices.Sort(list)
	return list, nil
}

// check calls CHECK. An old conflist has none.
func (c *call) check(ctx context.Context) error {
	return c.kernel.Do("", func() error {
		err := c.cni.CheckNetworkList(ctx, c.list, c.runtime)
		if errors.Is(err, libcni.ErrorCheckNotSupp) {
			return nil
		}
		return reason(err)
	})
}

// stands says whether ADD was called and DEL was not.
func (c *call) stands() bool {
	result, err := c.cni.GetNetworkListCachedResult(c.list, c.runtime)
	return result != nil || err != nil
}

// del calls DEL.
func (c *call) del(ctx context.Context) error {
	if _, err := os.Stat(c.runtime.NetNS); err != nil {
		gone := *c.runtime
		gone.NetNS = "" // as the specification has it for a container that has ended
		c.runtime = &gone
	}
	return c.kernel.Do("", func() error {
		if err := c.cni.DelNetworkList(ctx, c.list, c.runtime); err != nil {
			return fmt.Errorf("DEL of CNI: %w", reason(err))
		}
		return nil
	})
}

// reason adds what the plugin says in detail, which its error leaves out.
func reason(err error) error {
	if of, is := errors.AsType[*types.Error](err); is && of.Details != "" {
		return fmt.Errorf("%w (%s)", err, of.Details)
	}
	return err
}
