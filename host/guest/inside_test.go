package guest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
)

// TestInside checks that a guest has what tests of networks and filters need. It runs inside a guest.
func TestInside(t *testing.T) {
	if !testnet.Guest() {
		testnet.Skip(t, &linux.UnsupportedError{
			What: "look around in a guest", Missing: "guest", Hint: "make test-guest PKG=./host/guest",
		})
	}
	commands := map[string]string{
		"queues": "ip link add d0 type dummy && for q in netem 'tbf rate 1mbit burst 10kb latency 50ms' fq " +
			"fq_codel; do tc qdisc replace dev d0 root $q; done; ip link del d0",
		"classifiers": "ip link add d0 type dummy && tc qdisc add dev d0 clsact && tc filter add dev d0 ingress " +
			"protocol ip flower ip_proto udp action drop; ip link del d0",
		"nftables": "nft add table inet t && nft add chain inet t c '{ type nat hook postrouting priority 100; " +
			"}' && nft add rule inet t c masquerade && nft delete table inet t",
		"nftables netdev": "nft add table netdev t && nft add chain netdev t c '{ type filter hook ingress device lo " +
			"priority 0; }' && nft delete table netdev t",
		"iptables legacy": "iptables-legacy -t nat -A POSTROUTING -j MASQUERADE && ip6tables-legacy -A FORWARD -m " +
			"conntrack --ctstate NEW -j DROP && iptables-legacy -t nat -F && ip6tables-legacy -F",
		"iptables nft": "iptables-nft -A FORWARD -m physdev --physdev-in x -j ACCEPT && ip6tables-nft -A FORWARD -m " +
			"comment --comment c -j ACCEPT && iptables-nft -F && ip6tables-nft -F",
		"iptables-restore": "iptables-save | iptables-restore && iptables-legacy-save | iptables-legacy-restore",
		"ebtables":         "ebtables -A FORWARD -p IPv4 -j ACCEPT && ebtables -F",
		"ipset": "ipset create s hash:ip,port,ip && iptables-legacy -A FORWARD -m set --match-set s " +
			"src,dst,dst -j ACCEPT && iptables-legacy -F && ipset destroy s",
		"conntrack": "conntrack -L",
		"openvswitch": "modprobe -a openvswitch vport-vxlan vport-geneve vport-gre && test -d " +
			"/sys/module/openvswitch",
		"programs of ovs": "ovsdb-tool create $TMPDIR/conf.db /usr/share/openvswitch/vswitch.ovsschema && ovs-vswitchd " +
			"--version && ovs-vsctl --version && ovs-ofctl --version && ovs-dpctl --version && ovsdb-server --version && " +
			"ovs-appctl --version; rm -f $TMPDIR/.conf.db.~lock~ $TMPDIR/conf.db",
		"congestion control":  "modprobe -a tcp_bbr && grep bbr /proc/sys/net/ipv4/tcp_available_congestion_control",
		"bridges and filters": "test -e /proc/sys/net/bridge/bridge-nf-call-iptables",
		"types of the kernel": "test -s /sys/kernel/btf/vmlinux",
		"other programs":      "ethtool --version && tcpdump --version && ping -V && ss -V && bridge -V",
		"CNI plugins": "for p in ipvlan vlan host-local; do echo '{\"cniVersion\": \"1.0.0\"}' | CNI_COMMAND=VERSION " +
			"/usr/lib/cni/$p; done",
		"a control group": "mkdir /sys/fs/cgroup/t && rmdir /sys/fs/cgroup/t",
		"two processors":  "test $(nproc) = 2",
	}
	for kind, how := range map[string]string{
		"dummy": "", "ipip": "local 10.0.0.1 remote 10.0.0.2", "gre": "local 10.0.0.1 remote 10.0.0.2",
		"gretap": "local 10.0.0.1 remote 10.0.0.2",
		"sit":    "local 10.0.0.1 remote 10.0.0.2", "ip6tnl": "local fd00::1 remote fd00::2",
		"ip6gre": "local fd00::1 remote fd00::2",
		"geneve": "id 7 remote 10.0.0.1", "vxlan": "id 7 dstport 4789", "wireguard": "", "bond": "", "netkit": "",
		"vrf": "table 10", "xfrm": "dev lo if_id 5",
		"nlmon": "", "team": "", "ifb": "", "bridge": "", "veth": "",
	} {
		commands["link "+kind] = "ip link add name x0 type " + kind + " " + how + " && ip link del x0"
	}
	for kind, how := range map[string]string{
		"ipvlan": "mode l3s", "ipvtap": "", "macvlan": "mode private", "macvtap": "", "vlan": "id 5", "macsec": "",
	} {
		commands["link "+kind] = "ip link add d0 type dummy && ip link add link d0 name x0 type " + kind + " " + how +
			" && ip link del x0; ip link del d0"
	}
	for name, command := range commands {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", "-ec", command)
			if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "RTNETLINK answers") {
				t.Errorf("%s: %v\n%s", command, err, out)
			}
		})
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil || !strings.HasPrefix(string(release), "6.12.") {
		t.Errorf("its kernel is %q (%v), want 6.12", release, err)
	}
}
