package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// Backends of Flannel: Documentation/backends.md of github.com/flannel-io/flannel.
const (
	vxlan  = "vxlan"
	hostGW = "host-gw"
)

const (
	flanneld = "flanneld"
	// subnetFile is where flanneld says to its plugin which range the host has.
	subnetFile = "subnet.env"
	// device is the link of the backend vxlan, and vni its identifier: pkg/backend/vxlan/vxlan.go.
	device = "flannel.1"
	vni    = 1
	// vxlanPort is the port of the kernel's VXLAN devices to which nobody gives another (drivers/net/vxlan/vxlan_core.c,
	// vxlan_port): Flannel leaves it so.
	vxlanPort = 8472
	// etcdPort is the one that IANA has assigned to clients of etcd.
	etcdPort = 2379
	// bridged is the variable without which flanneld ends: main.go of github.com/flannel-io/flannel.
	bridged = "net.bridge.bridge-nf-call-iptables"
	// rangeBits is how long the prefix of a host's range is: see [network.Gateway].
	rangeBits = 16
)

// flannel says whether the first plugin is that of Flannel, which calls another one.
func (c *conflist) flannel() bool { return c.main() == flannel }

// maker is the object that says how the link of a container is made: that of the plugin which makes it.
func (c *conflist) maker() object {
	if !c.flannel() {
		return c.first()
	}
	o, _ := c.first()["delegate"].(object)
	if o == nil {
		o = object{}
		c.first()["delegate"] = o
	}
	return o
}

// kind is the type of the plugin that makes the link of a container.
func (c *conflist) kind() string {
	if c.flannel() {
		return bridge
	}
	return c.main()
}

// delegates says what of the plugin "flannel" cannot be planned.
func (c *conflist) delegates() error {
	if given, some := c.first()["delegate"]; some {
		o, ok := given.(object)
		if !ok {
			return errors.New("\"delegate\" of plugin \"flannel\" is not an object")
		}
		if kind, some := o["type"]; some && kind != bridge {
			return fmt.Errorf("plugin \"flannel\" calls plugin %q, whose links cannot be planned (valid: %q)", kind, bridge)
		}
	}
	if kind := text(c.ipam(), "type"); kind != "" && kind != hostLocal {
		return fmt.Errorf("IPAM %q cannot be asked for an address, and a plan has the address of each container beforehand "+
			"(valid: %q)", kind, hostLocal)
	}
	return nil
}

// fits says whether the parameters of Flannel are given for something else.
func fits(c *conflist, p part.Params) error {
	if c.flannel() {
		return nil
	}
	for _, name := range []string{backend, daemon, store} {
		if d, _ := (Network{}).Describe().Params.Find("", name); p[name] != "" && p[name] != d.Default {
			return fmt.Errorf("%s=%s is for plugin %q, and the first plugin is %q (leave %s out, or set %s=%s)", name, p[name],
				flannel, c.main(), name, plugin, flannel)
		}
	}
	return nil
}

// given is a parameter of Flannel, or its default.
func given(p part.Params, name string) string {
	if p[name] != "" {
		return p[name]
	}
	d, _ := (Network{}).Describe().Params.Find("", name)
	return d.Default
}

// checkFlannel says what of Flannel is missing here: a program, or what its daemon wants of the kernel.
func checkFlannel(p part.Params) error {
	for _, name := range []string{daemon, store} {
		if _, err := located(given(p, name), name); err != nil {
			return err
		}
	}
	if _, err := exec.LookPath("iptables"); err != nil {
		return &linux.UnsupportedError{
			What: "start flanneld", Missing: `program "iptables"`, Hint: "install the package iptables", Err: err,
		}
	}
	if _, err := sysctl.Read(bridged); errors.Is(err, fs.ErrNotExist) {
		return &linux.UnsupportedError{
			What: "start flanneld", Missing: "br_netfilter (CONFIG_BRIDGE_NETFILTER)", Hint: "modprobe br_netfilter", Err: err,
		}
	}
	if given(p, backend) == vxlan {
		return link.CheckKind(vxlan, "use backend="+hostGW+", or a kernel that has it")
	}
	return nil
}

// located returns the path of a program of Flannel, which a parameter names.
func located(program, parameter string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	hint := "install the package etcd-server"
	if parameter == daemon {
		hint = "get flanneld from github.com/flannel-io/flannel"
	}
	return "", &linux.UnsupportedError{
		What:    fmt.Sprintf("join hosts by Flannel with %s=%s", parameter, program),
		Missing: fmt.Sprintf("program %q", program),
		Hint:    fmt.Sprintf("%s, or set %s to the path of the program", hint, parameter), Err: err,
	}
}

// Tries has doctor look for the programs of Flannel.
func (Network) Tries() [][2]string { return [][2]string{{plugin, flannel}} }

// Crosses says that flanneld takes packets to other hosts.
func (Network) Crosses(p part.Params) bool {
	_, c := kindOf(p)
	return c != nil && c.flannel()
}

// IPv4Only says that Flannel has no IPv6 unless it is told so.
func (n Network) IPv4Only(p part.Params) string {
	if n.Crosses(p) {
		return "containers of Flannel have no addresses of IPv6"
	}
	return ""
}

// Alone says that flanneld sends by the underlay itself.
func (n Network) Alone(p part.Params) bool { return n.Crosses(p) }

// Cross returns the VXLAN of flanneld, or nothing with the backend host-gw.
func (Network) Cross(lab network.Lab) (s network.Span, ok bool, err error) {
	if given(lab.Params, backend) == hostGW {
		if lab.Routed() {
			return s, false, &network.UnfitError{Reason: fmt.Sprintf("backend %s of Flannel wants the hosts to be neighbours, "+
				"but there are routers between them (valid: %s=%s)", hostGW, backend, vxlan)}
		}
		return s, false, nil
	}
	s = lab.Above(flannel, 2, "ipv4", device, network.Overhead{
		Bytes: 20 + 8 + 8 + 14, Source: "20 IPv4, 8 UDP, 8 VXLAN, 14 Ethernet (RFC 7348, section 5)",
	})
	for i := range s.Reach {
		for j, h := range lab.Hosts {
			v4, _ := network.Gateway(h.Index)
			// The next hop is the first address of the range; flanneld chooses MAC addresses by chance.
			s.Reach[i][j] = network.Reach{Link: device, IPv4: v4.Masked().Addr()}
		}
	}
	s.Wire = []network.Protocol{
		{Name: "VXLAN", Number: network.UDP, Port: vxlanPort}, {Name: "etcd", Number: network.TCP, Port: etcdPort},
	}
	s.Guards.Claims = network.Carries("VXLAN", false)
	return s, true, nil
}

// networkConfig is the configuration of Flannel: Documentation/configuration.md of github.com/flannel-io/flannel.
type networkConfig struct {
	Network              string
	SubnetLen            int
	SubnetMin, SubnetMax string
	Backend              struct{ Type string }
}

// whole is the range of all hosts: see [network.Gateway].
const whole = "10.0.0.0/8"

// daemons are the steps of flanneld, and on the first host of etcd, which all of them talk to.
func (l *layout) daemons() ([]host.Step, error) {
	lab, params := l.lab, l.lab.Params
	if len(lab.Hosts) < 2 {
		return nil, errors.New("flanneld has nothing to do on one host")
	}
	of := func(h network.Host) Peer {
		gate, _ := network.Gateway(h.Index)
		at, _ := lab.Underlaid(h)
		return Peer{Range: gate.Masked().String(), Address: at.Addr().String()}
	}
	c := networkConfig{Network: whole, SubnetLen: rangeBits}
	c.SubnetMin, c.SubnetMax = "10.1.0.0", fmt.Sprintf("10.%d.0.0", network.MaxHosts)
	c.Backend.Type = given(params, backend)
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	e := Etcd{Program: given(params, store), Address: of(lab.Hosts[0]).Address, Config: string(text)}
	d := Flanneld{
		Program: given(params, daemon), Etcd: e.endpoint(), Backend: c.Backend.Type, Uplink: l.on.Uplink, Own: of(l.on),
		MTU: lab.Top().MTU,
	}
	for _, h := range lab.Hosts {
		if h.Index != l.on.Index {
			d.Peers = append(d.Peers, of(h))
		}
	}
	steps := []host.Step{network.Orphans("")} // of the daemons, which ask etcd
	if l.on.Index == lab.Hosts[0].Index {
		steps = append(steps, e)
	}
	return append(steps, d), nil
}

// ranges are those of all peers.
func (d Flanneld) ranges() []string {
	var list []string
	for _, p := range d.Peers {
		list = append(list, p.Range+" at "+p.Address)
	}
	return slices.Clip(list)
}
