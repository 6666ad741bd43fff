package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/invoke"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/network"
)

// self is the type of the plugin in a chain that nettoll is itself: it gives links what the plan has of them.
const self = "nettoll"

// quiet runs plugins. What they say beside their result is left out.
func quiet() invoke.Exec {
	return &invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: io.Discard}, PluginDecoder: version.PluginDecoder{}}
}

// executor runs plugins, and is one of them itself.
type executor struct {
	invoke.Exec
	call *call
	last string // the plugin that was called last
}

// FindInPath knows nettoll itself.
func (e *executor) FindInPath(plugin string, paths []string) (string, error) {
	e.last = plugin
	if plugin == self {
		return self, nil
	}
	return e.Exec.FindInPath(plugin, paths)
}

// ExecPlugin calls a plugin.
func (e *executor) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	if path != self {
		return e.Exec.ExecPlugin(ctx, path, stdin, environ)
	}
	if slices.Contains(environ, "CNI_COMMAND=ADD") {
		return e.call.settle(stdin)
	}
	return nil, nil
}

// settle gives the links of a container their names, addresses and MTU of the plan, and returns the result of the
// plugin before with these.
func (c *call) settle(stdin []byte) ([]byte, error) {
	var in struct {
		CNIVersion string          `json:"cniVersion"`
		PrevResult json.RawMessage `json:"prevResult"`
	}
	if err := json.Unmarshal(stdin, &in); err != nil {
		return nil, fmt.Errorf("read the result of the first plugin: %w", err)
	}
	previous, err := create.Create(in.CNIVersion, in.PrevResult)
	if err != nil {
		return nil, fmt.Errorf("read the result of the first plugin: %w", err)
	}
	result, err := types100.NewResultFromResult(previous)
	if err != nil {
		return nil, fmt.Errorf("read the result of the first plugin: %w", err)
	}
	if err := c.links(result); err != nil {
		return nil, err
	}
	same, err := result.GetAsVersion(in.CNIVersion)
	if err != nil {
		return nil, err
	}
	return json.Marshal(same)
}

// links changes the links and says so in the result.
func (c *call) links(result *types100.Result) error {
	inside, err := c.kernel.Links(c.step.Container)
	if err != nil {
		return err
	}
	inner, err := inside.ByName(network.Inner)
	if err != nil {
		return fmt.Errorf("the first plugin has made no link %q in %s: %w", network.Inner, c.step.Container, err)
	}
	if err := set(inside, inner, c.step.MAC, c.step.MTU); err != nil {
		return err
	}
	note := func(old, name, mac string, within bool) {
		for _, i := range result.Interfaces {
			if i.Name == old && within == (i.Sandbox != "") {
				i.Name = name
				if mac != "" {
					i.Mac = mac
				}
			}
		}
	}
	note(network.Inner, network.Inner, c.step.MAC, true)
	if c.step.Link == "" {
		return nil
	}
	h, err := c.kernel.Links("")
	if err != nil {
		return err
	}
	outer, err := h.ByIndex(inner.Peer)
	if err != nil {
		return fmt.Errorf("the first plugin has made no link to %s on the host: %w", c.step.Container, err)
	}
	if err := c.rename(h, outer); err != nil {
		return err
	}
	if err := set(h, outer, c.step.LinkMAC, c.step.MTU); err != nil {
		return err
	}
	note(outer.Name, c.step.Link, c.step.LinkMAC, false)
	if c.step.Bridge == "" {
		return nil
	}
	made, err := h.ByName(c.step.Bridge)
	if err != nil {
		return fmt.Errorf("the first plugin has made no bridge: %w", err)
	}
	note(c.step.Bridge, c.step.Bridge, c.step.BridgeMAC, false)
	return set(h, made, c.step.BridgeMAC, c.step.MTU)
}

// rename gives the host's link its name, and keeps its routes to the container.
func (c *call) rename(h *link.Handle, l link.Link) error {
	var to []netip.Addr
	for _, text := range c.step.Addresses {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		to = append(to, p.Addr())
	}
	return h.Rename(l.Index, c.step.Link, to...)
}

// set gives a link its MAC address and MTU, and with the former its address of link scope.
func set(h *link.Handle, l link.Link, mac string, mtu int) error {
	if mtu != l.MTU {
		if err := h.SetMTU(l.Index, mtu); err != nil {
			return err
		}
	}
	if mac == "" || mac == l.MAC.String() {
		return nil
	}
	to, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	if err := h.SetMAC(l.Index, to); err != nil {
		return err
	}
	if old := linkLocal(l.MAC); old.IsValid() {
		if err := h.DeleteAddress(l.Index, old); errors.Is(err, link.ErrNotFound) {
			return nil // it has none
		} else if err != nil {
			return err
		}
		return h.AddAddress(l.Index, linkLocal(to))
	}
	return nil
}

// linkLocal is the address of link scope of a MAC address (RFC 4291, appendix A), not valid if that is not one of
// Ethernet.
func linkLocal(mac net.HardwareAddr) netip.Prefix {
	if len(mac) != 6 {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	}), 64)
}
