package ovs

import (
	"fmt"
	"iter"
	"strconv"
)

// What the network "ovs" and the filter "ovs" have to agree on.
const (
	// RunDir is the name of an instance's directory on its host.
	RunDir = "ovs"
	// TableForward is where packets go on that may pass: table 0 is for filters, and leads there where there is none.
	TableForward = 10
)

// A Setting of the daemon that is not its default (other_config in ovs-vswitchd.conf.db(5)).
type Setting struct{ Name, Value string }

// idleSettings keep a daemon quiet that has nothing to do.
func idleSettings() []Setting {
	// The daemon looks through what the datapath remembers twice a second, though nothing has changed: most of what it
	// does when nothing is sent. When flows or addresses change it does so at once all the same. Counts of packets come
	// later, and what nobody used for 10 s is forgotten so much later at most.
	return []Setting{{"max-revalidator", "5000"}} // ms
}

// TunnelSettings are those of an instance in userspace that has tunnels. These drop packets that come without checksums
// or in large segments, so it does not take such ("Tunneling packets with HW offload flags is not supported", lib/
// odp-execute.c and lib/dpif-netdev.c of 3.1).
func TunnelSettings() []Setting { return idleSettings() }

// Settings are those of an instance.
func Settings(datapath string) []Setting {
	list := idleSettings()
	if datapath == Userspace {
		// Segmentation and checksums are left to the receiving end: the daemon would else get packets without checksums from
		// containers, and these drop them.
		list = append(list, Setting{"userspace-tso-enable", "true"})
	}
	return list
}

// Implementation says who forwards, and how that was set, for records.
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

// Cookies say whose flows they are. All of ours begin alike.
const (
	cookies              = 0x6e657474_00000000 // "nett"
	CookieNetwork uint64 = cookies | 0x10
	CookieBase    uint64 = cookies | 0x20 // what every filter lets through
	CookieAllowed uint64 = cookies | 0x21 // its list
	CookieRefused uint64 = cookies | 0x22 // all else
	CookieAdded   uint64 = cookies | 0x23 // what was added later
	CookieTunnel  uint64 = cookies | 0x30
)

// Nettoll is who writes all of these.
func Nettoll() Owner { return Owner{cookies, 0xffffffff_00000000} }

// Filter is who writes those of filters.
func Filter() Owner { return Owner{CookieBase, ^uint64(0xf)} }

// Strangers returns how many flows are nobody's of ours.
func (c *Conn) Strangers() (int, error) {
	_, all, err := c.Packets(Owner{})
	if err != nil {
		return 0, err
	}
	_, ours, err := c.Packets(Nettoll())
	return all - ours, err
}

// maxDiffer is how many differing flows are named.
const maxDiffer = 5

// Compare calls differ with the flows that someone was to have and has not, and with the number of those that are too
// many.
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
