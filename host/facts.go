package host

import (
	"fmt"
	"strings"

	"github.com/nettoll/nettoll/internal/linux/ethtool"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysfs"
)

// shown is how many veth links of the host itself are described: the ends of its uplink and of its first container.
const shown = 2

// Facts describes the actual links of the host and of its first container, by name, including settings that were left
// to the kernel. The key of a container's link is "eth0 in src0". Facts leaves out what it cannot read.
func (s *Stack) Facts(k *Kernel) map[string]string {
	facts := map[string]string{}
	spaces := []string{""}
	for _, a := range s.applied {
		if n, ok := a.Step.(Namespace); ok {
			spaces = append(spaces, n.Name)
			break
		}
	}
	for _, ns := range spaces {
		_ = k.Do(ns, func() error { // a namespace that cannot be entered has no facts
			describeLinks(k, ns, facts)
			return nil
		})
	}
	return facts
}

// describeLinks describes the links in the namespace of the calling thread.
func describeLinks(k *Kernel, ns string, facts map[string]string) {
	h, err := k.Links(ns)
	if err != nil {
		return
	}
	list, err := h.List()
	if err != nil {
		return
	}
	files, err := sysfs.Open()
	if err != nil {
		files = nil // as in a user namespace without a visible /sys
	} else {
		defer files.Close()
	}
	veths := 0
	for _, l := range list {
		if l.Type == "veth" && ns == "" {
			if veths++; veths > shown {
				continue
			}
		}
		if l.Index != loopback {
			facts[at(l.Name, ns)] = describeLink(h, files, l)
		}
	}
}

func describeLink(h *link.Handle, files *sysfs.Links, l link.Link) string {
	parts := []string{l.Type, fmt.Sprintf("mtu %d", l.MTU)}
	if q, err := h.Queue(l.Index); err == nil {
		parts = append(parts, fmt.Sprintf("qdisc %s, txqueuelen %d", q.Kind, q.Length))
	}
	for _, o := range ethtool.Offloads() {
		if on, err := ethtool.Get(l.Name, o); err == nil {
			parts = append(parts, fmt.Sprintf("%s %s", o, onOff(on)))
		}
	}
	if files == nil {
		return strings.Join(parts, ", ")
	}
	if names, err := files.List(l.Name, queues); err == nil {
		rx, tx := 0, 0
		for _, n := range names {
			if strings.HasPrefix(n, "rx-") {
				rx++
			} else {
				tx++
			}
		}
		parts = append(parts, fmt.Sprintf("queues rx %d tx %d", rx, tx))
	}
	for _, f := range []struct{ name, file string }{{"rps", rpsCPUs}, {"rfs", rpsFlows}} {
		if value, err := files.Read(l.Name, queues+"/rx-0/"+f.file); err == nil {
			parts = append(parts, f.name+" "+orZero(bare(value)))
		}
	}
	if value, err := files.Read(l.Name, hairpinMode); err == nil && value == "1" {
		parts = append(parts, "hairpin")
	}
	return strings.Join(parts, ", ")
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}
