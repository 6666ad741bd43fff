package cni

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// The parameters, and what stands between several values of one.
const (
	plugin    = "plugin"
	chain     = "chain"
	conf      = "conf"
	bin       = "bin"
	backend   = "backend"
	daemon    = "daemon"
	store     = "etcd"
	none      = "none"
	separator = "+"

	// packaged is the Debian package of the plugins.
	packaged = "containernetworking-plugins"
	// usualBin is where plugins are: by CNI's own documentation, and in Debian.
	usualBin = "/opt/cni/bin:/usr/lib/cni"
)

// Network is the network "cni".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Name:           "cni",
		Summary:        "CNI plugins join the containers, by a ready configuration or by your own",
		Implementation: "kernel",
		Near:           near,
		Claims:         claims,
		Params: part.List{
			{
				Name: plugin, Default: bridge, Quiet: true, Why: why,
				Values: []string{bridge, ptp, macvlan, ipvlan, hostDevice, vlan, tap, flannel},
				Summary: "the plugin that makes the links of containers; with tap, a process of nettoll moves their frames to a " +
					"bridge; flannel calls bridge, and Flannel's daemon flanneld takes packets to other hosts",
			},
			{
				Name: chain, Default: none, Quiet: true, Check: checkChain,
				Summary: "plugins behind it, such as portmap+firewall: portmap publishes a port of each container, firewall " +
					"accepts what containers send in the host's forward path, bandwidth limits to 100 Gbit/s, tuning sets a " +
					"variable; or none",
			},
			{
				Name: conf, Default: none, Quiet: true, Check: checkPath,
				Summary: "the file of your own conflist, in the place of a ready one (docs/cni.md); or none",
			},
			{
				Name: bin, Default: usualBin, Quiet: true, Check: checkBin,
				Summary: "the folders in which plugins are looked for, with a colon between them",
			},
			{
				Name: backend, Default: vxlan, Values: []string{vxlan, hostGW}, Quiet: true,
				Summary: "with plugin=flannel, how flanneld takes packets to other hosts: in VXLAN, or by routes alone (host-gw)",
			},
			{
				Name: daemon, Default: flanneld, Quiet: true, Check: checkProgram,
				Summary: "with plugin=flannel, Flannel's daemon: its path, or its name in PATH",
			},
			{
				Name: store, Default: etcd, Quiet: true, Check: checkProgram,
				Summary: "with plugin=flannel, the program etcd, in which the daemons of all hosts keep their ranges: its path, " +
					"or its name in PATH",
			},
		},
	}
}

// why says why a plugin cannot be chosen.
func why(value string) string {
	switch value {
	case portmap, firewall, bandwidth, tuning:
		return fmt.Sprintf("it stands behind another plugin: %s=%s", chain, value)
	}
	return ""
}

// chained are the plugins that can stand behind the first one.
func chained() []string { return []string{portmap, firewall, bandwidth, tuning} }

func checkChain(s string) (string, error) {
	if s == none {
		return s, nil
	}
	names := strings.Split(s, separator)
	for i, name := range names {
		if !slices.Contains(chained(), name) {
			return "", fmt.Errorf("invalid plugin %q (valid: %s, or several with %s between them; %s)", name,
				strings.Join(chained(), ", "), separator, none)
		}
		if slices.Contains(names[:i], name) {
			return "", fmt.Errorf("plugin %q is given twice", name)
		}
	}
	return s, nil
}

func checkPath(s string) (string, error) {
	if s == "" || strings.ContainsAny(s, "\n\t\x00") {
		return "", fmt.Errorf("invalid path %q of a conflist (valid: such as /etc/cni/net.d/10-mine.conflist, or %s)", s,
			none)
	}
	if s == none {
		return s, nil
	}
	_, err := read(s)
	return s, err
}

// read reads the user's conflist.
func read(path string) (*conflist, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the conflist: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConf+1))
	if err != nil {
		return nil, fmt.Errorf("read the conflist: %w", err)
	}
	c, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("conflist %s: %w", path, err)
	}
	return c, nil
}

func checkBin(s string) (string, error) {
	for dir := range strings.SplitSeq(s, ":") {
		if !filepath.IsAbs(dir) || strings.ContainsAny(dir, "\n\t\x00") {
			return "", fmt.Errorf("invalid folder %q of plugins (valid: absolute paths with a colon between them, such as %s)",
				dir, usualBin)
		}
	}
	return s, nil
}

func checkProgram(s string) (string, error) {
	if s == "" || strings.ContainsAny(s, " \n\t\x00") || strings.Contains(s, "/") && !filepath.IsAbs(s) {
		return "", fmt.Errorf("invalid program %q (valid: an absolute path, or a name in PATH)", s)
	}
	return s, nil
}

// folders are those in which plugins are looked for.
func folders(p part.Params) []string {
	if p[bin] == "" {
		return strings.Split(usualBin, ":")
	}
	return strings.Split(p[bin], ":")
}

// own is the path of the user's conflist, "" if there is none.
func own(p part.Params) string {
	if p[conf] == none {
		return ""
	}
	return p[conf]
}

// behind are the plugins behind the first one in a ready conflist.
func behind(p part.Params) []string {
	if p[chain] == "" || p[chain] == none {
		return nil
	}
	return strings.Split(p[chain], separator)
}

// chosen returns the conflist that the parameters name: the user's, or the ready one without its addresses.
func chosen(p part.Params) (*conflist, error) {
	path := own(p)
	if path == "" {
		c := ready(p)
		return c, fits(c, p)
	}
	for _, name := range []string{plugin, chain} {
		if d, _ := (Network{}).Describe().Params.Find("", name); p[name] != "" && p[name] != d.Default {
			return nil, fmt.Errorf("%s=%s and %s=%s: a conflist names its plugins itself (leave %s out)", conf, path, name,
				p[name], name)
		}
	}
	c, err := read(path)
	if err != nil {
		return nil, err
	}
	return c, fits(c, p)
}

// Limits of the ready plugin "bandwidth", in bit/s and bits: no link here is as fast, so that packets pay for the queue
// and never wait in it.
const (
	rate  = 100_000_000_000
	burst = 1_000_000_000
)

// ready returns the conflist of the parameters.
func ready(p part.Params) *conflist {
	kind := p[plugin]
	if kind == "" {
		kind = bridge
	}
	first := object{"type": kind, "ipam": object{"type": hostLocal}}
	specification := "1.0.0"
	switch kind {
	case flannel:
		// As in the manifest of Flannel for Kubernetes, kube-flannel.yml. Its plugin is that of the time when there was no
		// 1.0.0, and CHECK came with 0.4.0.
		first["delegate"], specification = object{"isDefaultGateway": true, "hairpinMode": true}, "0.4.0"
	case bridge:
		first["bridge"], first["isDefaultGateway"] = network.Bridge, true
	case ptp, tap:
		first["ipam"] = object{"type": hostLocal, "routes": []any{object{"dst": "0.0.0.0/0"}, object{"dst": "::/0"}}}
	case macvlan:
		first["mode"] = bridge
	case ipvlan:
		first["mode"] = "l2"
	case vlan:
		first["vlanId"] = 5
	}
	list := []any{first}
	for _, name := range behind(p) {
		o := object{"type": name}
		switch name {
		case portmap:
			o["capabilities"], o["snat"] = object{"portMappings": true}, true
		case firewall:
			o["backend"] = "iptables"
		case bandwidth:
			o["ingressRate"], o["ingressBurst"], o["egressRate"], o["egressBurst"] = rate, burst, rate, burst
		case tuning:
			o["sysctl"] = object{"net.core.somaxconn": "1024"}
		}
		list = append(list, o)
	}
	return &conflist{raw: object{"cniVersion": specification, "name": "nettoll", "plugins": list}}
}

// onSegment says whether a plugin puts containers on the underlay.
func onSegment(kind string) bool {
	return slices.Contains([]string{macvlan, ipvlan, hostDevice, vlan}, kind)
}

// kindOf is the plugin that makes links, also if the conflist cannot be read: "" then.
func kindOf(p part.Params) (string, *conflist) {
	c, err := chosen(p)
	if err != nil {
		return "", nil
	}
	return c.kind(), c
}

// claims are those of what the plugin makes.
func claims(_ int, p part.Params) threat.Claims {
	switch kind, _ := kindOf(p); kind {
	case bridge, tap:
		return slices.Concat(network.Passes(), network.Floods("the bridge"))
	case ptp:
		return slices.Concat(network.Passes(), network.Separate("the host routes a packet whatever its source"))
	case macvlan:
		return slices.Concat(network.Passes(), threat.Withstands(threat.Listening, threat.MACFlood),
			network.Believes("macvlan does not stop containers from sending with other addresses, nor from ARP spoofing"),
			threat.Leaves("macvlan passes broadcasts to all containers", threat.DHCP, threat.Router))
	case ipvlan:
		return slices.Concat(network.Passes(), threat.Withstands(threat.Listening, threat.MACFlood),
			network.Believes("ipvlan does not stop containers from sending with other addresses"),
			threat.Leaves("ipvlan passes broadcasts to all containers", threat.DHCP, threat.Router))
	case hostDevice, vlan:
		return slices.Concat(network.Passes(), network.Floods("the underlay's switch"))
	default:
		return threat.Leaves("nettoll does not know what the first plugin of the conflist makes", threat.All()...)
	}
}

// Steps are the kinds of steps of its own.
func (Network) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{
		Add{}.Kind(): func() host.Step { return new(Add) }, Etcd{}.Kind(): func() host.Step { return new(Etcd) },
		Flanneld{}.Kind(): func() host.Step { return new(Flanneld) }, Relay{}.Kind(): func() host.Step { return new(Relay) },
	}
}

// FilterPoint says that packets can be filtered at the bridge, where the host forwards, or else in containers.
func (Network) FilterPoint(p part.Params) (network.Point, string) {
	switch kind, c := kindOf(p); kind {
	case bridge, tap:
		return network.AtBridge, c.bridgeName()
	case ptp:
		return network.AtForward, ""
	default:
		return network.InContainer, ""
	}
}

// Unfilterable says that the plugin "firewall" decides before filters do.
func (Network) Unfilterable(_ int, p part.Params) string {
	_, c := kindOf(p)
	if c != nil && c.flannel() {
		return "flanneld accepts what containers send to other hosts before a filter sees it"
	}
	if c != nil && c.has(firewall) {
		return "plugin firewall accepts what containers send before a filter sees it (leave firewall out)"
	}
	return ""
}

// Wired says that each container has a link of its own to the switch: one that is moved, or one below a VLAN.
func (Network) Wired(p part.Params) (wired, moved bool) {
	kind, _ := kindOf(p)
	return kind == hostDevice || kind == vlan, kind == hostDevice
}

// Exclude leaves out labs that show nothing of the plugins, or in which containers do not reach each other.
func (Network) Exclude(hosts int, p part.Params) string {
	kind, c := kindOf(p)
	if c == nil {
		return "" // Check says why
	}
	if hosts == 1 && c.flannel() {
		return "on one host the plugin of Flannel makes the same bridge as plugin=bridge, and its daemon has nothing to do " +
			"(use several hosts)"
	}
	bridged := kind == bridge || kind == tap
	routed := bridged || kind == ptp
	if kind == tap && c.has(bandwidth) { // it would fail
		return "plugin bandwidth limits the host's end of a veth, and plugin tap makes none (valid with it: bridge, ptp)"
	}
	for _, name := range []string{portmap, firewall, bandwidth} {
		if own(p) != "" {
			break // it is measured as it is
		}
		if !routed && c.has(name) {
			valid := "bridge, ptp, tap"
			if name == bandwidth {
				valid = "bridge, ptp"
			}
			return fmt.Sprintf("plugin %s acts on what the host passes on, and the host does not see the packets of plugin %s "+
				"(valid with it: %s)", name, kind, valid)
		}
		if hosts == 1 && bridged && name != bandwidth && c.has(name) {
			return fmt.Sprintf("on one host packets between containers pass the bridge, and plugin %s sees none of them (use "+
				"several hosts, or plugin=ptp)", name)
		}
	}
	mode := text(c.maker(), "mode")
	switch {
	case hosts == 1 && kind == macvlan && mode != "" && mode != bridge:
		return fmt.Sprintf("with mode %q of macvlan containers of one host do not reach each other (valid here: %q)", mode,
			bridge)
	case own(p) == "" || hosts == 1:
		return ""
	case routed && on(c.maker(), "ipMasq"):
		return "with ipMasq other hosts see the address of the host, and do not know which container has sent a packet " +
			"(set \"ipMasq\": false, or use network nat)"
	case (kind == ptp || kind == tap) && !c.gated():
		return "its containers have no default route, so they do not reach those of other hosts (add the route " +
			"\"0.0.0.0/0\" to \"routes\" of its IPAM)"
	case routed && !c.gated():
		return "its containers have no default route, so they do not reach those of other hosts (add " +
			"\"isDefaultGateway\": true, or the route \"0.0.0.0/0\" with \"isGateway\": true)"
	case !routed && !onSegment(kind):
		return fmt.Sprintf("nettoll does not know how containers of plugin %q reach other hosts", kind)
	}
	return ""
}

// Check says which plugin is missing, and what this kernel lacks for it.
func (Network) Check(p part.Params) error {
	c, err := chosen(p)
	if err != nil {
		return err
	}
	kind := c.kind()
	switch {
	case kind == macvlan && text(c.first(), "mode") == "passthru", kind == ipvlan && !slices.Contains([]string{"", "l2"},
		text(c.first(), "mode")):
		return fmt.Errorf("mode %q of plugin %q cannot be planned (use network %s with this mode)", text(c.first(), "mode"),
			kind, kind)
	}
	if c.flannel() {
		if err := checkFlannel(p); err != nil {
			return err
		}
	}
	for _, name := range c.types() {
		if _, err := invoke.FindInPath(name, folders(p)); err != nil {
			return &linux.UnsupportedError{
				What: fmt.Sprintf("call plugin %q of CNI", name), Missing: fmt.Sprintf("CNI plugin %q", name),
				Hint: bringing(name), Err: err,
			}
		}
	}
	if c.has(portmap) || c.has(firewall) {
		if _, err := exec.LookPath("iptables"); err != nil {
			return &linux.UnsupportedError{
				What: "call plugins portmap and firewall of CNI", Missing: `program "iptables"`,
				Hint: "install the package iptables", Err: err,
			}
		}
	}
	if kind == tap {
		if err := link.CheckTUN("open TAP devices of containers"); err != nil {
			return err
		}
		if _, err := exec.LookPath("ip"); err != nil {
			return &linux.UnsupportedError{
				What: "call CNI plugin \"tap\"", Missing: `program "ip"`, Hint: "install the package iproute2",
				Err: err,
			}
		}
	}
	if kind == macvlan || kind == ipvlan || kind == vlan {
		if err := link.CheckKind(kind, "use another plugin, such as plugin=bridge, or a kernel that has it"); err != nil {
			return err
		}
	}
	text, err := c.JSON()
	if err != nil {
		return err
	}
	list, err := libcni.NetworkConfFromBytes([]byte(text))
	if err != nil {
		return err
	}
	runner := libcni.NewCNIConfigWithCacheDir(folders(p), "", quiet())
	if _, err := runner.ValidateNetworkList(context.Background(), list); err != nil {
		return fmt.Errorf("the plugins do not take the conflist: %w", err)
	}
	return nil
}

// Serves returns the ranges of the host's containers, none if they are on the underlay.
func (Network) Serves(lab network.Lab, h network.Host) []netip.Prefix {
	c, err := chosen(lab.Params)
	if err != nil || onSegment(c.main()) {
		return nil
	}
	l, err := lay(c, lab, h)
	if err != nil {
		return nil // Build says why
	}
	return l.serves()
}

// Trace says which way packets take: that of the bridge, of the host's forwarding, or past the host.
func (Network) Trace(t network.Trip) network.Way {
	c, err := chosen(t.Lab.Params)
	if err != nil {
		return network.Way{} // no such lab is built
	}
	from, err := lay(c, t.Lab, t.From.Host)
	if err != nil {
		return network.Way{}
	}
	return from.trace(t)
}

// Build has the plugins join each container.
func (Network) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	c, err := chosen(lab.Params)
	if err != nil {
		return nil, nil, err
	}
	check := lab.Check
	if onSegment(c.main()) {
		check = lab.CheckSegment
	}
	if err := check(); err != nil {
		return nil, nil, err
	}
	plans := make([]host.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		l, err := lay(c, lab, h)
		if err != nil {
			return nil, nil, fmt.Errorf("host %d: %w", h.Index, err)
		}
		if plans[i].Steps, ends[i], err = l.build(); err != nil {
			return nil, nil, err
		}
	}
	return plans, ends, nil
}

// bringing says what would help if a plugin is missing.
func bringing(name string) string {
	if name == flannel {
		return fmt.Sprintf("put the plugin of Flannel, github.com/flannel-io/cni-plugin, into one of these folders, or set "+
			"%s to the folder that it is in", bin)
	}
	if name == tap {
		return fmt.Sprintf("put the plugin of release 1.3.0 or newer of github.com/containernetworking/plugins into one of "+
			"these folders, or set %s to the folder that it is in", bin)
	}
	return fmt.Sprintf("install the package %s, or set %s to the folder that it is in", packaged, bin)
}

// Plugins returns all plugins that ready conflists have.
func (Network) Plugins() (brings map[string]string, folders []string) {
	brings = map[string]string{}
	for _, name := range slices.Concat([]string{
		bridge, ptp, macvlan, ipvlan, hostDevice, vlan, tap, flannel, hostLocal,
	}, chained()) {
		brings[name] = bringing(name)
	}
	return brings, strings.Split(usualBin, ":")
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{
		{
			Names: []string{"bridge-cni", "kindnet"},
			Why:   "it calls the plugins of a conflist, such as bridge and ptp",
		}, {
			Names: []string{flannel},
			Why:   "with plugin=flannel it has Flannel's own daemon and plugin join the containers",
		}, {
			Names: []string{"multus", "weave"},
			Why:   network.Plugins + "it calls the plugins of a conflist, such as those that these delegate to",
		},
	}
}
