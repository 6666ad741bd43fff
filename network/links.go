package network

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
)

// The parameters of [LinkParams].
const (
	txqueuelen = "txqueuelen"
	rps        = "rps"
	rfs        = "rfs"
	gro        = "gro"
	gso        = "gso"
	tso        = "tso"
	checksum   = "checksum"
	bridgeNF   = "bridge-nf"
	hairpin    = "hairpin"

	left = "default" // left to the kernel
	on   = "on"
	off  = "off"
)

// LinkParams are the parameters of every network whose containers have a veth. They apply to both ends of each
// container's link. See [Tuned].
func LinkParams() part.List {
	offload := func(name, what string) part.Param {
		return part.Param{Name: name, Default: left, Values: []string{left, on, off}, Quiet: true, Summary: what +
			" by the containers' links, on both ends"}
	}
	return part.List{
		{
			Name: txqueuelen, Default: left, Quiet: true, Check: number(100_000, false),
			Summary: "length of the queue (pfifo_fast) at each end of the containers' links, 0 to 100000 packets, 0 for no " +
				"queue; the kernel's default is no queue since Linux 4.3",
		},
		{
			Name: rps, Default: left, Quiet: true, Check: checkRPS,
			Summary: "CPUs that process packets received from the containers' links (RPS): off, all, or a list such as 0-1",
		},
		{
			Name: rfs, Default: left, Quiet: true, Check: number(1<<16, true),
			Summary: "flows that each end of the containers' links steers to the CPU that reads them (RFS): a power of two up " +
				"to 65536, or 0; the machine's net.core.rps_sock_flow_entries must not be 0",
		},
		offload(gro, "received segments are merged (GRO)"),
		offload(gso, "segments are split late (GSO)"),
		offload(tso, "TCP segments larger than the MTU are accepted (TSO)"),
		offload(checksum, "checksums are left out (tx and rx), as nothing can damage a packet there; off requires tso=off "+
			"and gso=off"),
	}
}

// BridgeNF is the parameter of networks with a Linux bridge that says whether bridged packets pass netfilter's hooks of
// their family.
func BridgeNF() part.Param {
	return part.Param{
		Name: bridgeNF, Default: off, Values: []string{off, on}, Quiet: true,
		Summary: "bridged packets pass iptables, ip6tables and arptables (net.bridge.bridge-nf-call-*)",
	}
}

// Hairpin is the parameter of networks with a Linux bridge that says whether a port sends packets back through itself.
func Hairpin() part.Param {
	return part.Param{
		Name: hairpin, Default: off, Values: []string{off, on}, Quiet: true,
		Summary: "the bridge sends packets back through the port that they came from",
	}
}

func number(most int, power bool) func(string) (string, error) {
	return func(s string) (string, error) {
		if s == left {
			return s, nil
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > most || power && n&(n-1) != 0 {
			kind := "a number"
			if power {
				kind = "0 or a power of two"
			}
			return "", fmt.Errorf("invalid value %q (valid: %s up to %d, or %s)", s, kind, most, left)
		}
		return strconv.Itoa(n), nil
	}
}

func checkRPS(s string) (string, error) {
	if s == left || s == on || s == off || s == "all" {
		return map[string]string{left: left, on: "all", off: off, "all": "all"}[s], nil
	}
	for part := range strings.SplitSeq(s, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		a, err := strconv.ParseUint(first, 10, 12)
		b, err2 := strconv.ParseUint(last, 10, 12)
		if err != nil || err2 != nil || b < a {
			return "", fmt.Errorf("invalid value %q (valid: off, all, a list of CPUs such as 0-1 or 0,2, or %s)", s, left)
		}
	}
	return s, nil
}

// Tuned returns the steps that [LinkParams] ask for: one for each end of the link of each container, none if everything
// is left to the kernel.
func Tuned(p part.Params, ends []Endpoint) []host.Step {
	wanted := settings(p)
	var steps []host.Step
	for _, e := range ends {
		for _, at := range []struct {
			ns, name string
			port     bool
		}{{"", e.Link, true}, {e.Namespace, e.Inner, false}} {
			t := wanted
			t.NS, t.Name = at.ns, at.name
			t.Hairpin = t.Hairpin && at.port
			if at.name != "" && !idle(t) {
				steps = append(steps, t)
			}
		}
	}
	return steps
}

// idle says whether a step would do nothing.
func idle(t host.LinkSettings) bool {
	return t.Queue == "" && t.RPS == "" && t.RFS == "" && len(t.On)+len(t.Off) == 0 && !t.Hairpin
}

// settings returns the settings that the parameters ask for, without a link.
func settings(p part.Params) host.LinkSettings {
	given := func(name string) string {
		if p[name] == left {
			return ""
		}
		return p[name]
	}
	t := host.LinkSettings{Queue: given(txqueuelen), RPS: given(rps), RFS: given(rfs), Hairpin: p[hairpin] == on}
	for _, x := range []struct {
		name     string
		offloads []string
	}{{checksum, []string{"tx", "rx"}}, {tso, []string{"tso"}}, {gso, []string{"gso"}}, {gro, []string{"gro"}}} {
		switch p[x.name] {
		case on:
			t.On = append(t.On, x.offloads...)
		case off:
			t.Off = append(t.Off, x.offloads...)
		}
	}
	return t
}

// CheckLinks returns why this machine does not support some of [LinkParams] or [BridgeNF], nil if it supports all. It
// runs in the namespace of the machine and is meant for a [Checker].
func CheckLinks(p part.Params) error {
	if p[checksum] == off && (p[tso] == on || p[gso] == on) {
		return fmt.Errorf("%s=off with %s=on or %s=on: segments larger than the MTU have no checksums of their own (leave "+
			"both at %s)", checksum, tso, gso, left)
	}
	if p[bridgeNF] == on {
		if err := bridgeNetfilter(on)[0].Check(); err != nil {
			return err
		}
	}
	return settings(p).Check()
}
