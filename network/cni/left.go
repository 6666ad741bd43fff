package cni

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/iptables"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/nft"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
)

// A state is what of a host plugins may change, as a text for each thing: what it is, or its value.
type state struct {
	Links     map[string]string `json:"links,omitempty"`     // type by name
	Up        map[string]string `json:"up,omitempty"`        // whether they are up, by name
	Addresses map[string]string `json:"addresses,omitempty"` // "10.1.0.1/16 of br0"
	Variables map[string]string `json:"variables,omitempty"` // values
	Chains    map[string]string `json:"chains,omitempty"`    // "ip nat CNI-HOSTPORT-DNAT": how many rules
	Tables    map[string]string `json:"tables,omitempty"`    // "ip nat" of nftables, "legacy ip nat" of legacy iptables
	Files     map[string]string `json:"files,omitempty"`     // below the directory of the network
}

// of stands between an address and the link that has it.
const of = " of "

// forwardings are the variables by which a host forwards. Plugins with a gateway switch them on.
func forwardings() []string { return []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} }

// look reads the state of a host.
func look(k *host.Kernel, dir string) (state, error) {
	s := state{
		Links: map[string]string{}, Up: map[string]string{}, Addresses: map[string]string{}, Variables: map[string]string{},
		Chains: map[string]string{}, Tables: map[string]string{}, Files: map[string]string{},
	}
	h, err := k.Links("")
	if err != nil {
		return s, err
	}
	links, err := h.List()
	if err != nil {
		return s, err
	}
	variables := forwardings()
	for _, l := range links {
		s.Links[l.Name], s.Up[l.Name] = l.Type, strconv.FormatBool(l.Up)
		variables = append(variables, "net.ipv4.conf."+strings.ReplaceAll(l.Name, ".", "/")+".route_localnet")
		all, err := h.Addresses(l.Index)
		if err != nil {
			return s, err
		}
		for _, a := range all {
			if !a.Addr().IsLinkLocalUnicast() {
				s.Addresses[a.String()+of+l.Name] = ""
			}
		}
	}
	if err := k.Do("", func() error {
		for _, key := range variables {
			value, err := sysctl.Read(key)
			if errors.Is(err, fs.ErrNotExist) {
				continue // without IPv6, or of a link that has just gone
			}
			if err != nil {
				return err
			}
			s.Variables[key] = value
		}
		for _, contents := range []func() (map[string]map[string]int, error){nft.Contents, iptables.Contents} {
			tables, err := contents()
			if err != nil && !errors.Is(err, errors.ErrUnsupported) { // that means that nobody can have put a rule there
				return err
			}
			for table, chains := range tables {
				s.Tables[table] = ""
				for chain, rules := range chains {
					s.Chains[table+" "+chain] = fmt.Sprint(rules)
				}
			}
		}
		return nil
	}); err != nil {
		return s, err
	}
	return s, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		s.Files[name] = ""
		return err
	})
}

// since returns what a state has that an earlier one has not; of variables, and of whether links are up, the earlier
// value.
func (s state) since(before state) state {
	was := maps.Clone(before.Up) // also of a link that is in a container now
	maps.DeleteFunc(was, func(name, up string) bool { return s.Up[name] == up })
	return state{
		Links: without(s.Links, before.Links), Up: was, Addresses: without(s.Addresses, before.Addresses),
		Variables: changed(s.Variables, before.Variables), Chains: without(s.Chains, before.Chains),
		Tables: without(s.Tables, before.Tables), Files: without(s.Files, before.Files),
	}
}

func without(all, but map[string]string) map[string]string {
	more := maps.Clone(all)
	maps.DeleteFunc(more, func(name, _ string) bool {
		_, was := but[name]
		return was
	})
	return more
}

func changed(now, before map[string]string) map[string]string {
	was := map[string]string{}
	for name, value := range before {
		if is, there := now[name]; there && is != value {
			was[name] = value
		}
	}
	return was
}

// String lists what the state has: "link br0 (bridge), net.ipv4.ip_forward (0 before)", "" if that is nothing.
func (s state) String() string {
	var list []string
	add := func(format string, things map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(things)) {
			if strings.Contains(format, "(") {
				list = append(list, fmt.Sprintf(format, name, things[name]))
			} else {
				list = append(list, fmt.Sprintf(format, name))
			}
		}
	}
	add("link %s (%s)", s.Links)
	add("state of link %s (up=%s before)", s.Up)
	add("address %s", s.Addresses)
	add("%s (%s before)", s.Variables)
	add("chain %s (%s rules)", s.Chains)
	add("file %s", s.Files)
	return strings.Join(list, ", ")
}

// clear removes what the state has, and puts variables back. What is gone already is no error.
func (s state) clear(k *host.Kernel, dir string) error {
	h, err := k.Links("")
	if err != nil {
		return err
	}
	var errs []error
	try := func(err error) {
		if err != nil && !errors.Is(err, link.ErrNotFound) && !errors.Is(err, nft.ErrNotFound) &&
			!errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for name, kind := range s.Links {
		l, err := h.ByName(name)
		if err == nil && l.Type == kind {
			err = h.Delete(l.Index)
		}
		try(err)
	}
	for name, up := range s.Up {
		l, err := h.ByName(name)
		if err == nil && strconv.FormatBool(l.Up) != up {
			err = h.SetUp(l.Index, !l.Up)
		}
		try(err)
	}
	for text := range s.Addresses {
		address, name, _ := strings.Cut(text, of)
		p, err := netip.ParsePrefix(address)
		if err != nil {
			return fmt.Errorf("read address %q: %w", address, err)
		}
		l, err := h.ByName(name)
		if err == nil {
			err = h.DeleteAddress(l.Index, p)
		}
		try(err)
	}
	for table := range s.Tables {
		try(k.Do("", func() error {
			if legacy, err := iptables.Clear(table); legacy {
				return err
			}
			return nft.Drop(table)
		}))
	}
	try(s.reset(k))
	for name := range s.Files {
		try(os.Remove(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// reset puts variables back.
func (s state) reset(k *host.Kernel) error {
	return k.Do("", func() error {
		var errs []error
		for key, value := range s.Variables {
			if err := sysctl.Write(key, value); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
}
