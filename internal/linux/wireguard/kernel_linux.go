package wireguard

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// InKernel returns nil if the kernel has the device, and otherwise what is missing.
func InKernel() error {
	return link.CheckKind("wireguard", "load the kernel module wireguard, or use impl=embedded")
}

// Add makes a kernel device, which is down, in the calling thread's network namespace, and returns its index.
func Add(name string, mtu int) (index int, err error) {
	d := &netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: mtu}}
	if err := netlink.LinkAdd(d); err != nil {
		return 0, fmt.Errorf("make device %q of type \"wireguard\": %w", name, err)
	}
	return d.Index, nil
}

// SetKernel configures a kernel device in the calling thread's network namespace. It replaces the previous
// configuration.
func SetKernel(name string, c Config) error {
	return inKernel(name, func(client *wgctrl.Client) error {
		port := int(c.Port)
		config := wgtypes.Config{PrivateKey: (*wgtypes.Key)(c.Key.key), ListenPort: &port, ReplacePeers: true}
		for _, p := range c.Peers {
			one := wgtypes.PeerConfig{
				PublicKey: wgtypes.Key(p.Key), Endpoint: net.UDPAddrFromAddrPort(p.Endpoint), ReplaceAllowedIPs: true,
			}
			for _, a := range p.Allowed {
				one.AllowedIPs = append(one.AllowedIPs, net.IPNet{
					IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen()),
				})
			}
			config.Peers = append(config.Peers, one)
		}
		return client.ConfigureDevice(name, config)
	})
}

// GetKernel returns the state of a kernel device in the calling thread's network namespace.
func GetKernel(name string) (s State, err error) {
	err = inKernel(name, func(client *wgctrl.Client) error {
		d, err := client.Device(name)
		if err != nil {
			return err
		}
		s = State{Key: Public(d.PublicKey), Port: uint16(d.ListenPort), Mark: d.FirewallMark}
		for _, p := range d.Peers {
			one := PeerState{
				Peer: Peer{Key: Public(p.PublicKey)}, Preshared: p.PresharedKey != wgtypes.Key{},
				Keepalive: p.PersistentKeepaliveInterval, Handshake: p.LastHandshakeTime,
			}
			if p.Endpoint != nil {
				at := p.Endpoint.AddrPort()
				one.Endpoint = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
			}
			for _, a := range p.AllowedIPs {
				ip, _ := netip.AddrFromSlice(a.IP)
				ones, _ := a.Mask.Size()
				one.Allowed = append(one.Allowed, netip.PrefixFrom(ip.Unmap(), ones))
			}
			s.Peers = append(s.Peers, one)
		}
		return nil
	})
	return s, err
}

// inKernel calls f with a netlink socket of the calling thread's network namespace.
func inKernel(name string, f func(*wgctrl.Client) error) error {
	client, err := wgctrl.New()
	if err != nil {
		return fmt.Errorf("open the kernel's interface of WireGuard: %w", err)
	}
	defer client.Close()
	if err := f(client); err != nil {
		return fmt.Errorf("device %q of WireGuard: %w", name, err)
	}
	return nil
}
