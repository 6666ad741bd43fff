package traffic

import (
	"context"
	"slices"
	"strings"
)

// A Reading is what a machine has counted since it started, for whatever reason.
type Reading struct {
	// Clock names the clock of the machine, see clock.Name: machines with the same one have one kernel, and only their
	// devices differ.
	Clock string `json:"clock"`
	// At is the time of that clock when it was read, in ns.
	At int64 `json:"at"`
	// CPU is the time that all CPUs together have spent in each mode, in s (procfs.Modes).
	CPU map[string]float64 `json:"cpu"`
	// Softirqs is the number of softirqs of the network, sending and receiving.
	Softirqs int64 `json:"softirqs"`
	// Softirqd is the run time of all ksoftirqd threads in ns. It is negative if that is not known.
	Softirqd int64 `json:"softirqd"`
	// Memory is what is in use, in bytes; 0 if that is not known.
	Memory int64 `json:"memory"`
	// Devices are those of the network namespace of the machine.
	Devices []DeviceCount `json:"devices"`
}

// DeviceCount is what a network device has carried since it was made.
type DeviceCount struct {
	Name string `json:"name"`
	// Index distinguishes it from others of the same name, before and after it.
	Index int `json:"index"`
	// Received and Sent are numbers of packets. A large segment that is cut later counts as one.
	Received int64 `json:"received"`
	Sent     int64 `json:"sent"`
	// ReceivedBytes and SentBytes are their lengths.
	ReceivedBytes int64 `json:"received_bytes"`
	SentBytes     int64 `json:"sent_bytes"`
	// Dropped is the number of packets that it has dropped, received and to be sent.
	Dropped int64 `json:"dropped"`
}

// A Meter reads what a machine has counted so far.
type Meter func(ctx context.Context) (Reading, error)

// Metered is what a machine has counted during a trial.
type Metered struct {
	Machine string // its name
	Reading        // At is how long that took, in ns; Memory is that of its end
}

// Since returns what was counted since an earlier reading. Devices that were not there before are left out, and so are
// those that have carried and dropped nothing.
func (r Reading) Since(before Reading) Reading {
	d := Reading{
		Clock: r.Clock, At: r.At - before.At, CPU: map[string]float64{}, Softirqs: r.Softirqs - before.Softirqs,
		Softirqd: -1, Memory: r.Memory,
	}
	if r.Softirqd >= 0 && before.Softirqd >= 0 {
		d.Softirqd = r.Softirqd - before.Softirqd
	}
	for mode, s := range r.CPU {
		d.CPU[mode] = s - before.CPU[mode]
	}
	was := make(map[int]DeviceCount, len(before.Devices))
	for _, one := range before.Devices {
		was[one.Index] = one
	}
	for _, now := range r.Devices {
		b, known := was[now.Index]
		if !known || b.Name != now.Name {
			continue
		}
		one := DeviceCount{
			Name: now.Name, Index: now.Index, Received: now.Received - b.Received, Sent: now.Sent - b.Sent,
			ReceivedBytes: now.ReceivedBytes - b.ReceivedBytes, SentBytes: now.SentBytes - b.SentBytes,
			Dropped: now.Dropped - b.Dropped,
		}
		if one.Received != 0 || one.Sent != 0 || one.Dropped != 0 {
			d.Devices = append(d.Devices, one)
		}
	}
	return d
}

// idle are the modes of a CPU that has nothing to do, or that the hypervisor gives to another guest.
func idle() []string { return []string{"idle", "iowait", "steal"} }

// Busy returns for how long CPUs were busy, and for how much of that with interrupts and softirqs, in s.
func (r Reading) Busy() (all, interrupts float64) {
	for mode, s := range r.CPU {
		if !slices.Contains(idle(), mode) {
			all += s
		}
		if strings.HasSuffix(mode, "irq") { // there are two such modes
			interrupts += s
		}
	}
	return all, interrupts
}

// Kernels returns one of the machines of each kernel: several on one kernel count the same CPU time and softirqs.
func Kernels(list []Metered) []Metered {
	var some []Metered
	for _, m := range list {
		if m.Clock == "" || !slices.ContainsFunc(some, func(o Metered) bool { return o.Clock == m.Clock }) {
			some = append(some, m)
		}
	}
	return some
}
