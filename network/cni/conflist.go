package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/nettoll/nettoll/network"
)

// The plugins that this package knows.
const (
	bridge     = "bridge"
	ptp        = "ptp"
	macvlan    = "macvlan"
	ipvlan     = "ipvlan"
	hostDevice = "host-device"
	vlan       = "vlan"
	tap        = "tap"
	flannel    = "flannel"

	portmap   = "portmap"
	firewall  = "firewall"
	bandwidth = "bandwidth"
	tuning    = "tuning"

	hostLocal = "host-local"
	static    = "static"
)

// maxConf is how large the file of a conflist may be, in bytes.
const maxConf = 1 << 20

// leastVersion of the specification has the links in results.
const leastVersion = "0.3.0"

// object is a JSON object whose fields are kept as they are.
type object = map[string]any

// conflist is a list of plugins, as CNI has it, with what a plan needs to know of it.
type conflist struct {
	raw  object
	sets [][]addresses // of which each container gets an address
}

// addresses is a range of host-local.
type addresses struct {
	subnet              netip.Prefix
	start, end, gateway netip.Addr
}

// parse reads a conflist. It returns a conflist or an error, never both.
func parse(text []byte) (*conflist, error) {
	if len(text) > maxConf {
		return nil, fmt.Errorf("the file is larger than %d bytes", maxConf)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var raw object
	if err := d.Decode(&raw); err != nil {
		return nil, fmt.Errorf("it is not valid JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is not valid JSON: something follows the object")
	}
	if _, single := raw["type"]; single {
		return nil, errors.New(`it is the configuration of one plugin (valid: a list, {"cniVersion": "1.0.0", "name": ` +
			`"mine", "plugins": [{"type": "bridge", …}]})`)
	}
	list, err := libcni.NetworkConfFromBytes(text)
	if err != nil {
		return nil, err
	}
	if len(list.Plugins) == 0 {
		return nil, errors.New("it names no plugins (valid: a list of at least one)")
	}
	if newer, err := version.GreaterThanOrEqualTo(list.CNIVersion, leastVersion); err != nil || !newer {
		return nil, fmt.Errorf("cniVersion %q has no links in results (valid: %s or newer)", list.CNIVersion, leastVersion)
	}
	c := &conflist{raw: raw}
	if err := c.known(); err != nil {
		return nil, err
	}
	if c.flannel() {
		return c, nil // flanneld says which ranges there are
	}
	if c.sets, err = rangesOf(c.ipam()); err != nil {
		return nil, err
	}
	return c, nil
}

// known says what of the first plugin and its IPAM cannot be planned.
func (c *conflist) known() error {
	switch c.main() {
	case tap:
		if name := text(c.first(), "bridge"); name != "" {
			return fmt.Errorf("plugin \"tap\" makes its device a port of bridge %q in the container, where addresses of the "+
				"device do not work (leave \"bridge\" out)", name)
		}
	case flannel:
		return c.delegates()
	}
	ipam := c.ipam()
	if ipam == nil {
		return fmt.Errorf("plugin %q has no IPAM, so containers get no addresses (valid: \"ipam\": {\"type\": %q, …})",
			c.main(), hostLocal)
	}
	switch kind := text(ipam, "type"); kind {
	case hostLocal:
		return nil
	case static:
		given, _ := ipam["addresses"].([]any)
		for _, a := range given {
			if a, ok := a.(object); ok {
				return fmt.Errorf("it hands out address %q twice: IPAM \"static\" gives it to every container (valid: %q with a "+
					"range)", text(a, "address"), hostLocal)
			}
		}
		return fmt.Errorf("IPAM \"static\" has no addresses (valid: %q with a range)", hostLocal)
	default:
		return fmt.Errorf("IPAM %q cannot be asked for an address, and a plan has the address of each container beforehand "+
			"(valid: %q)", kind, hostLocal)
	}
}

// text is a field of an object, "" if it is something else.
func text(o object, name string) string {
	s, _ := o[name].(string)
	return s
}

// on says whether a field of an object is true.
func on(o object, name string) bool {
	b, _ := o[name].(bool)
	return b
}

// plugins are the objects of the list.
func (c *conflist) plugins() []object {
	list, _ := c.raw["plugins"].([]any)
	var objects []object
	for _, p := range list {
		if o, ok := p.(object); ok {
			objects = append(objects, o)
		}
	}
	return objects
}

// types are those of all plugins, in order, with that which "flannel" calls, and that of the IPAM.
func (c *conflist) types() []string {
	var list []string
	for _, p := range c.plugins() {
		list = append(list, text(p, "type"))
	}
	switch {
	case len(list) == 0:
		return nil
	case c.flannel():
		return append(slices.Insert(list, 1, bridge), hostLocal)
	}
	return append(list, text(c.ipam(), "type"))
}

// first is the plugin that makes the link of a container.
func (c *conflist) first() object { return c.plugins()[0] }

// main is its type.
func (c *conflist) main() string { return text(c.first(), "type") }

// ipam is the IPAM of the first plugin, nil if it has none.
func (c *conflist) ipam() object {
	o, _ := c.first()["ipam"].(object)
	if len(o) == 0 {
		return nil
	}
	return o
}

// has says whether a plugin is in the list.
func (c *conflist) has(kind string) bool {
	return slices.ContainsFunc(c.plugins(), func(p object) bool { return text(p, "type") == kind })
}

// bridgeName is the bridge of the plugin "bridge", or that in which the other ends of TAP devices are.
func (c *conflist) bridgeName() string {
	if c.main() == tap {
		return network.Bridge
	}
	if name := text(c.maker(), "bridge"); name != "" {
		return name
	}
	return "cni0" // the plugin's default
}

// gated says whether the host has the gateway of containers, and whether they send to it what is for others.
func (c *conflist) gated() bool {
	if c.flannel() {
		return true // the plugin adds the gateway, and a route to the ranges of all hosts
	}
	if c.main() == bridge {
		if on(c.first(), "isDefaultGateway") {
			return true
		}
		if !on(c.first(), "isGateway") {
			return false
		}
	}
	routes, _ := c.ipam()["routes"].([]any)
	for _, r := range routes {
		if r, ok := r.(object); ok {
			if to, err := netip.ParsePrefix(text(r, "dst")); err == nil && to.Bits() == 0 {
				return true
			}
		}
	}
	return false
}

// rangesOf reads the ranges of host-local: of each set in "ranges", and of the older "subnet" beside it, a container
// gets an address.
func rangesOf(ipam object) ([][]addresses, error) {
	var sets [][]addresses
	if _, old := ipam["subnet"]; old {
		r, err := rangeOf(ipam)
		if err != nil {
			return nil, err
		}
		sets = append(sets, []addresses{r})
	}
	all, ok := ipam["ranges"].([]any)
	if _, given := ipam["ranges"]; given && !ok {
		return nil, errors.New("\"ranges\" of its IPAM is not a list of lists of ranges")
	}
	for _, one := range all {
		list, _ := one.([]any)
		var set []addresses
		for _, r := range list {
			o, _ := r.(object)
			a, err := rangeOf(o)
			if err != nil {
				return nil, err
			}
			if len(set) > 0 && set[0].subnet.Addr().Is4() != a.subnet.Addr().Is4() {
				return nil, fmt.Errorf("ranges %s and %s of one set are of two families", set[0].subnet, a.subnet)
			}
			set = append(set, a)
		}
		if len(set) == 0 {
			return nil, errors.New("a set of \"ranges\" of its IPAM has no range")
		}
		sets = append(sets, set)
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("its IPAM %q has no ranges (valid: \"ranges\": [[{\"subnet\": \"10.88.0.0/16\"}]])", hostLocal)
	}
	families := map[bool]netip.Prefix{}
	for _, s := range sets {
		v4 := s[0].subnet.Addr().Is4()
		if other, twice := families[v4]; twice {
			return nil, fmt.Errorf("its IPAM gives each container an address of %s and one of %s (valid: one of each family)",
				other, s[0].subnet)
		}
		families[v4] = s[0].subnet
	}
	return sets, nil
}

// rangeOf reads a range: its subnet, from which address to which, and its gateway.
func rangeOf(o object) (addresses, error) {
	subnet, err := netip.ParsePrefix(text(o, "subnet"))
	if err != nil || subnet.Addr().Is4In6() || subnet.Addr().Zone() != "" {
		return addresses{}, fmt.Errorf("invalid subnet %q of its IPAM (valid: such as 10.88.0.0/16)", text(o, "subnet"))
	}
	a := addresses{subnet: subnet.Masked()}
	if subnet.Bits() > subnet.Addr().BitLen()-2 {
		return addresses{}, fmt.Errorf("subnet %s of its IPAM has no room for two containers", subnet)
	}
	for _, f := range []struct {
		name string
		to   *netip.Addr
		or   netip.Addr
	}{
		{"rangeStart", &a.start, a.subnet.Addr().Next()},
		{"rangeEnd", &a.end, last(a.subnet)},
		{"gateway", &a.gateway, a.subnet.Addr().Next()},
	} {
		*f.to = f.or
		if given, some := o[f.name]; some && given != nil {
			s, _ := given.(string)
			address, err := netip.ParseAddr(s)
			if err != nil || !a.subnet.Contains(address) {
				return addresses{}, fmt.Errorf("invalid %s %q of its IPAM (valid: an address in %s)", f.name, s, a.subnet)
			}
			*f.to = address
		}
	}
	if a.end.Less(a.start) {
		return addresses{}, fmt.Errorf("range from %s to %s of its IPAM is empty", a.start, a.end)
	}
	return a, nil
}

// last is the last address of a range that a container can have: in IPv4 that before the broadcast address.
func last(p netip.Prefix) netip.Addr {
	n := number(p.Masked().Addr())
	n.Add(n, size(p))
	n.Sub(n, big.NewInt(1))
	if p.Addr().Is4() {
		n.Sub(n, big.NewInt(1))
	}
	return address(n, p.Addr())
}

func size(p netip.Prefix) *big.Int {
	return new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// address is the address of a number, of the family of another one; the zero value if there is none.
func address(n *big.Int, like netip.Addr) netip.Addr {
	if n.Sign() < 0 || n.BitLen() > like.BitLen() {
		return netip.Addr{}
	}
	a, _ := netip.AddrFromSlice(n.FillBytes(make([]byte, like.BitLen()/8)))
	return a
}

// plus is an address so many further; the zero value if there is none.
func plus(a netip.Addr, n *big.Int) netip.Addr { return address(n.Add(n, number(a)), a) }

// pick returns address i of a set that a container can have, counted from 0: gateways are left out. Its length is that
// of its subnet.
func pick(set []addresses, i int) (netip.Prefix, error) {
	rest := int64(i)
	for _, r := range set {
		n := rest
		if !r.gateway.Less(r.start) && !plus(r.start, big.NewInt(n)).Less(r.gateway) {
			n++
		}
		if a := plus(r.start, big.NewInt(n)); a.IsValid() && !r.end.Less(a) {
			return netip.PrefixFrom(a, r.subnet.Bits()), nil
		}
		held := new(big.Int).Sub(number(r.end), number(r.start))
		rest -= held.Int64() + 1
		if !r.gateway.Less(r.start) && !r.end.Less(r.gateway) {
			rest++
		}
	}
	return netip.Prefix{}, fmt.Errorf("the range from %s to %s of its IPAM has no address for container %d (hint: a "+
		"larger range)", set[0].start, set[len(set)-1].end, i+1)
}

// moved returns the set of another host: each range that many of its sizes further.
func moved(set []addresses, by int) ([]addresses, error) {
	list := slices.Clone(set)
	for i, r := range list {
		for _, a := range []*netip.Addr{&r.start, &r.end, &r.gateway} {
			*a = plus(*a, new(big.Int).Mul(size(r.subnet), big.NewInt(int64(by))))
		}
		first := plus(r.subnet.Addr(), new(big.Int).Mul(size(r.subnet), big.NewInt(int64(by))))
		if !first.IsValid() || !r.end.IsValid() {
			return nil, fmt.Errorf("there is no range of the size of %s for host %d", r.subnet, by+1)
		}
		r.subnet = netip.PrefixFrom(first, r.subnet.Bits())
		list[i] = r
	}
	return list, nil
}

// write returns the ranges in the form of host-local.
func write(sets [][]addresses) []any {
	var all []any
	for _, set := range sets {
		var list []any
		for _, r := range set {
			list = append(list, object{
				"subnet": r.subnet.String(), "rangeStart": r.start.String(), "rangeEnd": r.end.String(),
				"gateway": r.gateway.String(),
			})
		}
		all = append(all, list)
	}
	return all
}

// clone copies a conflist in depth.
func (c *conflist) clone() *conflist {
	return &conflist{raw: copied(c.raw).(object), sets: slices.Clone(c.sets)} //nolint:forcetypeassert // copied keeps it
}

func copied(v any) any {
	switch v := v.(type) {
	case object:
		o := make(object, len(v))
		for name, value := range v {
			o[name] = copied(value)
		}
		return o
	case []any:
		list := make([]any, len(v))
		for i, value := range v {
			list[i] = copied(value)
		}
		return list
	}
	return v
}

// JSON writes the conflist in one line.
func (c *conflist) JSON() (string, error) {
	data, err := json.Marshal(c.raw)
	return string(data), err
}
