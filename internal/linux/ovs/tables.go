package ovs

import (
	"fmt"
	"iter"
	"strconv"
)

// Names and numbers that the network "ovs" and the filter "ovs" share.
const (
	// RunDir is the name of an instance's directory on its host.
	RunDir = "ovs"
	// TableForward is the table for packets that may pass. Table 0 is for filters, and leads there if there is no
	// filter.
	TableForward = 10
)

// A Setting is a setting of the daemon that differs from its default (other_config in ovs-vswitchd.conf.db(5)).
type Setting struct{ Name, Value string }

// idleSettings reduce the work of an idle daemon.
func idleSettings() []Setting {
	// By default, the daemon checks the datapath's decisions twice a second even if nothing has changed. That is most
	// of its work when nothing is sent. It still reacts at once to changes of flows or addresses. Packet counters are
	// updated later, and a decision that is not used for 10 s may stay longer by the same time.
	return []Setting{{"max-revalidator", "5000"}} // ms
}

// TunnelSettings returns the settings of an instance in userspace with tunnels. Tunnels drop packets without checksums
// and large segments, so the instance does not accept those ("Tunneling packets with HW offload flags is not
// supported", lib/odp-execute.c and lib/dpif-netdev.c of 3.1).
func TunnelSettings() []Setting { return idleSettings() }

// Settings returns the settings of an instance.
func Settings(datapath string) []Setting {
	list := idleSettings()
	if datapath == Userspace {
		// The receiving end does segmentation and checksums: otherwise the daemon would get packets without checksums
		// from containers, and they would drop them.
		list = append(list, Setting{"userspace-tso-enable", "true"})
	}
	return list
}

// Implementation describes who forwards, and with which settings, for records.
func Implementation(datapath string, settings ...Setting) string {
	text := "userspace"
	if datapath == Kernel {
		text = "kernel"
	}
	text += " datapath"
	for _, s := range settings {
		text += ", " + s.Name + " " + s.Value
	}
	return "ovs (" + text + ")"
}

// Cookies identify the owners of flows. Those of nettoll have a common prefix.
const (
	cookies              = 0x6e657474_00000000 // "nett"
	CookieNetwork uint64 = cookies | 0x10
	CookieBase    uint64 = cookies | 0x20 // flows that every filter has
	CookieAllowed uint64 = cookies | 0x21 // the allow-list of a filter
	CookieRefused uint64 = cookies | 0x22 // everything else
	CookieAdded   uint64 = cookies | 0x23 // rules that were added later
	CookieTunnel  uint64 = cookies | 0x30
)

// Nettoll is the owner of all these flows.
func Nettoll() Owner { return Owner{cookies, 0xffffffff_00000000} }

// Filter is the owner of the flows of filters.
func Filter() Owner { return Owner{CookieBase, ^uint64(0xf)} }

// Strangers returns the number of flows that do not belong to nettoll.
func (c *Conn) Strangers() (int, error) {
	_, all, err := c.Packets(Owner{})
	if err != nil {
		return 0, err
	}
	_, ours, err := c.Packets(Nettoll())
	return all - ours, err
}

// maxDiffer is the largest number of different flows that are named.
const maxDiffer = 5

// Compare calls differ with the flows that an owner lacks, and with the number of flows that it should not have.
func (c *Conn) Compare(o Owner, want iter.Seq[Flow], differ func(what, want, got string)) error {
	keys, err := c.Keys(o)
	if err != nil {
		return err
	}
	missing := 0
	for f := range want {
		key := f.Key()
		if !keys[key] {
			if missing++; missing <= maxDiffer {
				differ("flow "+f.String(), "present", "absent")
			}
			continue
		}
		delete(keys, key)
	}
	if missing > maxDiffer {
		differ("flows", fmt.Sprintf("%d that are absent", missing), "absent")
	}
	differ("flows that are too many", "0", strconv.Itoa(len(keys)))
	return nil
}
