package host

import (
	"fmt"
	"slices"
	"strings"
)

// A Reaching is a step that puts something into namespaces of other hosts: the end of a link. The plan of such a host
// is applied after the step.
type Reaching interface {
	Step
	// Reaches returns references to the namespaces ("@host2"). References to namespaces that do not belong to another
	// host are ignored.
	Reaches() []string
}

// Reaches returns the namespace of the far end.
func (v Veth) Reaches() []string { return []string{v.PeerNS} }

// Reaches returns the namespace of the variable.
func (s Sysctl) Reaches() []string { return []string{s.NS} }

// Waves returns the order in which the plans of a lab are applied. Each wave is a list of hosts, by their places in
// names, whose plans can be applied at the same time, after those of the waves before. A host waits for those whose
// plans reach into it. plans[i] is the plan of names[i].
func Waves(names []string, plans []Plan) ([][]int, error) {
	waits := make([][]int, len(names))
	for from, p := range plans {
		for _, s := range p.Steps {
			r, ok := s.(Reaching)
			if !ok {
				continue
			}
			for _, ref := range r.Reaches() {
				name, other := strings.CutPrefix(ref, "@")
				to := slices.Index(names, name)
				if other && to >= 0 && to != from && !slices.Contains(waits[to], from) {
					waits[to] = append(waits[to], from)
				}
			}
		}
	}
	var waves [][]int
	done := make([]bool, len(names))
	for left := len(names); left > 0; {
		var wave, stuck []int
		for i := range names {
			switch {
			case done[i]:
			case slices.ContainsFunc(waits[i], func(j int) bool { return !done[j] }):
				stuck = append(stuck, i)
			default:
				wave = append(wave, i)
			}
		}
		if len(wave) == 0 {
			var circle []string
			for _, i := range stuck {
				circle = append(circle, names[i])
			}
			text := strings.Join(circle, ", ")
			return nil, fmt.Errorf("hosts %s wait for each other, because the plan of each needs the namespaces of "+
				"another", text)
		}
		for _, i := range wave {
			done[i] = true
		}
		waves, left = append(waves, wave), left-len(wave)
	}
	return waves, nil
}
