package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/ethtool"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/linux/sysfs"
)

// LinkSettings changes settings of an existing link other than its MTU: its queue, its receiving CPUs and its offloads.
// Undoing it restores the former settings. A setting of "" is not changed.
type LinkSettings struct {
	NS   string `json:"ns,omitempty"`
	Name string `json:"name"`
	// Queue is how many packets may wait that the link cannot send at once: a number, "0" for no queue. See
	// [link.Handle.SetQueue].
	Queue string `json:"queue,omitempty"`
	// RPS are the CPUs that process received packets (Documentation/networking/scaling.rst): a list like "0-1,3",
	// "all", or "off", which means the CPU that received them.
	RPS string `json:"rps,omitempty"`
	// RFS is the number of flows shared by the link's receive queues, a power of two or 0. With RFS, packets go to the
	// CPU on which their flow is read.
	RFS string `json:"rfs,omitempty"`
	// On and Off are offloads to switch, by their names of ethtool(8): "tx", "rx" (checksums), "tso", "gso", "gro".
	On  []string `json:"on,omitempty"`
	Off []string `json:"off,omitempty"`
	// Hairpin lets a port of a bridge send packets back out of the port on which they arrived.
	Hairpin bool `json:"hairpin,omitempty"`
	// Isolated prevents a port of a bridge from reaching other isolated ports directly: such packets go through the
	// host (BR_ISOLATED, net/bridge/br_forward.c).
	Isolated bool `json:"isolated,omitempty"`
}

// Values of RPS that are not lists.
const (
	rpsOff = "off"
	rpsAll = "all"
)

// Attributes of a link below /sys/class/net.
const (
	hairpinMode = "brport/hairpin_mode"
	isolated    = "brport/isolated"
	queues      = "queues"
	rpsCPUs     = "rps_cpus"
	rpsFlows    = "rps_flow_cnt"
)

// Kind returns "link-settings".
func (LinkSettings) Kind() string { return "link-settings" }

// String describes the step in plain words.
func (t LinkSettings) String() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch t.Queue {
	case "":
	case "0":
		add("no queue")
	default:
		add("queue of %s", t.Queue)
	}
	if t.RPS != "" {
		add("rps %s", t.RPS)
	}
	if t.RFS != "" {
		add("rfs %s", t.RFS)
	}
	for _, o := range t.On {
		add("%s on", o)
	}
	for _, o := range t.Off {
		add("%s off", o)
	}
	if t.Hairpin {
		add("hairpin")
	}
	if t.Isolated {
		add("isolated")
	}
	return "settings of " + at(t.Name, t.NS) + ": " + strings.Join(parts, ", ")
}

// steersFlows is the variable with the size of the machine's table of flows and their CPUs. Namespaces have no such
// variable (net/core/sysctl_net_core.c, net_core_table).
const steersFlows = "net.core.rps_sock_flow_entries"

// Check returns an error if this machine cannot steer flows. It changes nothing.
func (t LinkSettings) Check() error {
	if t.RFS == "" || t.RFS == "0" {
		return nil
	}
	entries, err := sysctl.Read(steersFlows)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || entries == "0" {
		return &linux.UnsupportedError{
			What: "steer flows to the CPU that reads them (rfs=" + t.RFS + ")", Missing: steersFlows + " of the machine",
			Hint: "it is 0 and machine-wide, so nettoll does not set it: run sysctl -w " + steersFlows +
				"=32768, or use rps", Err: err,
		}
	}
	return nil
}

// parse returns the length of the queue; -1 if none is given.
func (t LinkSettings) parse() (queue int, err error) {
	queue = -1
	if t.Queue != "" {
		if queue, err = strconv.Atoi(t.Queue); err != nil || queue < 0 {
			return 0, fmt.Errorf("invalid queue length %q (valid: a number of packets, 0 for no queue)", t.Queue)
		}
	}
	for _, o := range slices.Concat(t.On, t.Off) {
		if !slices.Contains(ethtool.Offloads(), ethtool.Offload(o)) {
			return 0, fmt.Errorf("unknown offload %q (known: %q)", o, ethtool.Offloads())
		}
		if slices.Contains(t.On, o) && slices.Contains(t.Off, o) {
			return 0, fmt.Errorf("offload %q is both on and off", o)
		}
	}
	return queue, nil
}

// mask writes a list of CPUs in the kernel's bitmap format: hexadecimal words of 32 bits with commas between them
// (lib/bitmap.c).
func mask(list string) (string, error) {
	set := new(big.Int)
	for part := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		a, err := strconv.ParseUint(first, 10, 13)
		b, err2 := strconv.ParseUint(last, 10, 13)
		if err != nil || err2 != nil || b < a {
			return "", fmt.Errorf("invalid list of CPUs %q (valid: such as 0-1,3)", list)
		}
		for i := a; i <= b; i++ {
			set.SetBit(set, int(i), 1)
		}
	}
	return words(set), nil
}

func words(set *big.Int) string {
	text := set.Text(16)
	var list []string
	for len(text) > 8 {
		list = append(list, text[len(text)-8:])
		text = text[:len(text)-8]
	}
	list = append(list, text)
	slices.Reverse(list)
	return strings.Join(list, ",")
}

// sameMask compares two masks without their leading zeros, whose number depends on the kernel's number of CPUs.
func sameMask(a, b string) bool { return bare(a) == bare(b) }

func bare(m string) string { return strings.TrimLeft(strings.ReplaceAll(m, ",", ""), "0") }

// cpus returns the value for rps_cpus; "" to leave it unchanged.
func (t LinkSettings) cpus(l *sysfs.Links) (string, error) {
	switch t.RPS {
	case "":
		return "", nil
	case rpsOff:
		return "0", nil
	case rpsAll:
		online, err := l.CPUs()
		if err != nil {
			return "", err
		}
		return mask(online)
	}
	return mask(t.RPS)
}

// attributes returns the step's values for the link below /sys/class/net, in order.
func (t LinkSettings) attributes(l *sysfs.Links) ([][2]string, error) {
	var want [][2]string
	if t.Hairpin {
		want = append(want, [2]string{hairpinMode, "1"})
	}
	if t.Isolated {
		want = append(want, [2]string{isolated, "1"})
	}
	cpus, err := t.cpus(l)
	if err != nil || cpus == "" && t.RFS == "" {
		return want, err
	}
	names, err := l.List(t.Name, queues)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, n := range names {
		if !strings.HasPrefix(n, "rx-") {
			continue
		}
		if cpus != "" {
			want = append(want, [2]string{queues + "/" + n + "/" + rpsCPUs, cpus})
		}
		if t.RFS != "" {
			want = append(want, [2]string{queues + "/" + n + "/" + rpsFlows, t.RFS})
		}
	}
	return want, nil
}

// files reports whether the step needs /sys.
func (t LinkSettings) files() bool { return t.Hairpin || t.Isolated || t.RPS != "" || t.RFS != "" }

// settingsBefore holds the former values of the settings that a [LinkSettings] changed.
type settingsBefore struct {
	Index int         `json:"index"`
	Queue *link.Queue `json:"queue,omitempty"`
	// Offloads and Attributes are in the order in which they were changed.
	Offloads   []offloadWas   `json:"offloads,omitempty"`
	Attributes []attributeWas `json:"attributes,omitempty"`
}

type offloadWas struct {
	Name ethtool.Offload `json:"name"`
	On   bool            `json:"on"`
}

// attributeWas is an attribute of a link below /sys/class/net.
type attributeWas struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Apply changes the settings and saves the former ones.
func (t LinkSettings) Apply(_ context.Context, k *Kernel) error {
	queue, err := t.parse()
	if err != nil {
		return err
	}
	_, h, err := k.inside(t.NS)
	if err != nil {
		return err
	}
	l, err := h.ByName(t.Name)
	if err != nil {
		return err
	}
	was := settingsBefore{Index: l.Index}
	return k.Do(t.NS, func() error {
		if err := t.set(h, queue, &was); err != nil {
			return errors.Join(err, t.restore(h, was))
		}
		return k.Keep(was)
	})
}

// set makes all settings in the namespace of the calling thread, and saves the former ones.
func (t LinkSettings) set(h *link.Handle, queue int, was *settingsBefore) error {
	if queue >= 0 {
		found, err := h.Queue(was.Index)
		if err != nil {
			return err
		}
		if err := h.SetQueue(was.Index, queue); err != nil {
			return err
		}
		was.Queue = &found
	}
	if err := t.switchOffloads(was); err != nil || !t.files() {
		return err
	}
	return t.write(was)
}

// Remove restores the former settings.
func (t LinkSettings) Remove(_ context.Context, k *Kernel) error {
	var was settingsBefore
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	_, h, stands, err := k.standing(t.NS)
	if !stands {
		return err
	}
	return k.Do(t.NS, func() error { return t.restore(h, was) })
}

// restore restores the former settings, in the namespace of the calling thread.
func (t LinkSettings) restore(h *link.Handle, was settingsBefore) error {
	if l, err := h.ByIndex(was.Index); errors.Is(err, link.ErrNotFound) || err == nil && l.Name != t.Name {
		return nil // the link is gone, and another link has its index
	} else if err != nil {
		return err
	}
	var errs []error
	try := func(err error) {
		if err != nil && !errors.Is(err, link.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if len(was.Attributes) > 0 {
		files, err := sysfs.Open()
		if err != nil {
			return err
		}
		defer files.Close()
		for _, a := range slices.Backward(was.Attributes) {
			try(files.Write(t.Name, a.Name, a.Value))
		}
	}
	for _, o := range slices.Backward(was.Offloads) {
		try(ethtool.Set(t.Name, o.Name, o.On))
	}
	if was.Queue != nil {
		try(h.PutQueue(was.Index, *was.Queue))
	}
	return errors.Join(errs...)
}

// switchOffloads switches the offloads in the namespace of the calling thread. It switches checksums on first, because
// others require them.
func (t LinkSettings) switchOffloads(was *settingsBefore) error {
	for _, o := range ethtool.Offloads() {
		on := slices.Contains(t.On, string(o))
		if !on && !slices.Contains(t.Off, string(o)) {
			continue
		}
		found, err := ethtool.Get(t.Name, o)
		if err == nil && found != on {
			err = ethtool.Set(t.Name, o, on)
		}
		if err != nil {
			return err
		}
		if found != on {
			was.Offloads = append(was.Offloads, offloadWas{o, found})
		}
	}
	return nil
}

// write writes attributes in the namespace of the calling thread.
func (t LinkSettings) write(was *settingsBefore) error {
	return t.eachAttribute(func(l *sysfs.Links, name, want string) error {
		found, err := l.Read(t.Name, name)
		if err == nil {
			err = l.Write(t.Name, name, want)
		}
		if err != nil {
			return err
		}
		was.Attributes = append(was.Attributes, attributeWas{name, found})
		return nil
	})
}

// eachAttribute calls do for each of the [LinkSettings.attributes], until the first error.
func (t LinkSettings) eachAttribute(do func(l *sysfs.Links, name, want string) error) error {
	l, err := sysfs.Open()
	if err != nil {
		return err
	}
	defer l.Close()
	list, err := t.attributes(l)
	if err != nil {
		return err
	}
	for _, a := range list {
		if err := do(l, a[0], a[1]); err != nil {
			return err
		}
	}
	return nil
}

// Verify compares all settings with the step.
func (t LinkSettings) Verify(k *Kernel) error {
	queue, err := t.parse()
	if err != nil {
		return err
	}
	c := check{step: t}
	return c.link(k, t.NS, t.Name, func(l link.Link, h *link.Handle) error {
		if queue >= 0 {
			got, err := h.Queue(l.Index)
			if err != nil {
				return err
			}
			kind := "pfifo_fast"
			if queue == 0 {
				kind = "noqueue"
			}
			c.equal("queueing discipline of "+t.Name, kind, got.Kind)
			c.equal("length of the queue of "+t.Name, t.Queue, strconv.Itoa(got.Length))
		}
		if len(t.On)+len(t.Off) == 0 && !t.files() {
			return nil
		}
		return k.Do(t.NS, func() error { return t.compare(&c) })
	})
}

// compare compares, in the namespace of the calling thread, the settings that are not in netlink.
func (t LinkSettings) compare(c *check) error {
	for _, list := range []struct {
		offloads []string
		want     string
	}{{t.On, "on"}, {t.Off, "off"}} {
		for _, o := range list.offloads {
			got, err := ethtool.Get(t.Name, ethtool.Offload(o))
			if err != nil {
				return err
			}
			c.equal(fmt.Sprintf("%s of %s", o, t.Name), list.want, onOff(got))
		}
	}
	if !t.files() {
		return nil
	}
	return t.eachAttribute(func(l *sysfs.Links, name, want string) error {
		got, err := l.Read(t.Name, name)
		if errors.Is(err, fs.ErrNotExist) {
			got = absent
		} else if err != nil {
			return err
		}
		if !sameMask(want, got) {
			c.equal(name+" of "+t.Name, want, got)
		}
		return nil
	})
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
