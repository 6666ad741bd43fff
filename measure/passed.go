package measure

import (
	"cmp"
	"slices"
)

// CompareDevices orders devices: those that lead to containers first, then by name.
func CompareDevices(a, b Device) int {
	if (a.Container == "") != (b.Container == "") {
		return cmp.Compare(b.Container, a.Container) // "" is less than a name
	}
	return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Name, b.Name))
}

// Count adds what a device has counted.
func (p *Passed) Count(d Device) {
	i := slices.IndexFunc(p.Devices, func(o Device) bool { return o.Name == d.Name })
	if i < 0 {
		p.Devices = append(p.Devices, d)
		return
	}
	p.Devices[i].add(d)
}

func (d *Device) add(o Device) {
	d.Left, d.Entered = d.Left+o.Left, d.Entered+o.Entered
	d.Received, d.Sent = d.Received+o.Received, d.Sent+o.Sent
	d.ReceivedBytes, d.SentBytes = d.ReceivedBytes+o.ReceivedBytes, d.SentBytes+o.SentBytes
	d.Dropped += o.Dropped
}

// Carry adds packets that have left a container of the host, and such that have arrived in it.
func (p *Passed) Carry(container string, left, entered int64) {
	p.Left, p.Entered = p.Left+left, p.Entered+entered
	for i := range p.Devices {
		if d := &p.Devices[i]; d.Container == container {
			d.Left, d.Entered = d.Left+left, d.Entered+entered
		}
	}
}

// still is the share of the packets below which a device that leads to no container is left out of records: it has
// carried something else.
const still = 0.01

// Moved returns it with the devices that lead to containers, and those that have carried a hundredth of the packets or
// dropped some.
func (p Passed) Moved() Passed {
	least := int64(still * float64(max(p.Left, p.Entered)))
	p.Devices = slices.DeleteFunc(slices.Clone(p.Devices), func(d Device) bool {
		return d.Container == "" && d.Dropped == 0 && max(d.Received, d.Sent) <= least
	})
	slices.SortFunc(p.Devices, CompareDevices)
	return p
}

// Carries reports whether a device has counted at least the packets that have left the containers of the host and those
// that have arrived in them: to the outside, as the device of an underlay does, or to the inside, as a bridge does. For
// one that leads to a container, they are those of that container.
func (p Passed) Carries(d Device) bool {
	left, entered := p.Left, p.Entered
	if d.Container != "" {
		left, entered = d.Left, d.Entered
		return left+entered > 0 && d.Received >= left && d.Sent >= entered
	}
	return d.Sent >= left && d.Received >= entered || d.Received >= left && d.Sent >= entered
}

// LabPassed is what the devices of the hosts of a lab have counted in all generations.
type LabPassed struct {
	Lab   string
	Hosts []Passed
}

// PassedIn adds up lab records, in the order of labs. Devices that lead to the same container are one, whose name is
// that of the last generation.
func PassedIn(labs []LabRecord) (list []LabPassed) {
	for _, l := range labs {
		if len(l.Passed) == 0 || l.Rebuilt {
			continue
		}
		i := slices.IndexFunc(list, func(o LabPassed) bool { return o.Lab == l.Lab })
		if i < 0 {
			i, list = len(list), append(list, LabPassed{Lab: l.Lab})
		}
		for _, p := range l.Passed {
			list[i].add(p)
		}
	}
	return list
}

func (l *LabPassed) add(p Passed) {
	i := slices.IndexFunc(l.Hosts, func(o Passed) bool { return o.Host == p.Host && o.Machine == p.Machine })
	if i < 0 {
		i, l.Hosts = len(l.Hosts), append(l.Hosts, Passed{Host: p.Host, Machine: p.Machine, Across: p.Across})
	}
	to := &l.Hosts[i]
	to.Trials, to.Left, to.Entered = to.Trials+p.Trials, to.Left+p.Left, to.Entered+p.Entered
	for _, d := range p.Devices {
		k := slices.IndexFunc(to.Devices, func(o Device) bool {
			return o.Container == d.Container && (d.Container != "" || o.Name == d.Name)
		})
		if k < 0 {
			to.Devices = append(to.Devices, d)
			continue
		}
		to.Devices[k].Name = d.Name
		to.Devices[k].add(d)
	}
	slices.SortFunc(to.Devices, CompareDevices)
}

// LabHeard is what the hosts of a lab have got from each other in all proofs.
type LabHeard struct {
	Lab    string
	Frames []Heard
}

// HeardIn adds up lab records, in the order of labs. When is then "".
func HeardIn(labs []LabRecord) (list []LabHeard) {
	for _, l := range labs {
		if len(l.Heard) == 0 {
			continue
		}
		i := slices.IndexFunc(list, func(o LabHeard) bool { return o.Lab == l.Lab })
		if i < 0 {
			i, list = len(list), append(list, LabHeard{Lab: l.Lab})
		}
		for _, h := range l.Heard {
			h.When = ""
			k := slices.IndexFunc(list[i].Frames, func(o Heard) bool {
				return o.Host == h.Host && o.Machine == h.Machine && o.Device == h.Device && o.Wire == h.Wire
			})
			if k < 0 {
				list[i].Frames = append(list[i].Frames, h)
				continue
			}
			list[i].Frames[k].Frames += h.Frames
			list[i].Frames[k].Marked += h.Marked
		}
	}
	return list
}
