package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
)

// Names of settings in ids, and of the congestion control among the parameters of workloads.
const (
	settingMTU        = "mtu"
	settingCongestion = "congestion"
)

// Names of settings in records.
const (
	kindMTU        = "mtu"
	kindCongestion = "congestion_control"
)

// automatic stands for the congestion control that all cells can set.
const automatic = "auto"

// CongestionControls lists the congestion controls that a stack can have. The first is "auto", which stands for the
// experiment's.
func CongestionControls() []string {
	p, err := workload.StreamParams().Find("workload", settingCongestion)
	if err != nil {
		return nil
	}
	return p.Values
}

// SettingPath returns the path of the setting of all stacks in an experiment.
func SettingPath(s stack.Setting) string {
	if s.Name == settingCongestion {
		return "factors.congestion-control"
	}
	return "factors." + s.Name
}

// congestionNames returns the names that experiments accept for the congestion control, in addition to the parameter's
// name.
func congestionNames() []string { return []string{"congestion-control", "congestion_control"} }

// parameter returns the name of the parameter that a key stands for.
func parameter(key string) string {
	if slices.Contains(congestionNames(), key) {
		return settingCongestion
	}
	return key
}

// named lists all names of a parameter.
func named(p part.Param) []string {
	if p.Name == settingCongestion {
		return append([]string{p.Name}, congestionNames()...)
	}
	return []string{p.Name}
}

// list returns settings as in ids.
func (s Settings) list() []stack.Setting {
	var list []stack.Setting
	if s.MTU != 0 {
		list = append(list, stack.Setting{Name: settingMTU, Value: strconv.Itoa(s.MTU)})
	}
	if s.Congestion != "" {
		list = append(list, stack.Setting{Name: settingCongestion, Value: s.Congestion})
	}
	return list
}

// readSettings reads settings as in ids.
func readSettings(list []stack.Setting) (s Settings, err error) {
	for _, one := range list {
		switch one.Name {
		case settingMTU:
			s.MTU, err = mtu(one.Value)
		case settingCongestion:
			s.Congestion, err = part.Param{Values: CongestionControls()[1:]}.Value(one.Value)
		default:
			return s, &UnknownError{Kind: "setting", Name: one.Name, Known: []string{settingMTU, settingCongestion}}
		}
		if err != nil {
			return s, fmt.Errorf("%s: %w", one.Name, err)
		}
	}
	return s, nil
}

// readStack reads a stack as in ids: "bridge+nftables(rules=10)+mtu=9000".
func (p Parts) readStack(id string) (Stack, error) {
	rest, list := stack.Settings(strings.TrimSpace(id))
	own, err := readSettings(list)
	if err != nil {
		return Stack{}, err
	}
	s := Stack{Settings: own}
	if s.Parts, err = p.Kinds.Parse(rest); err != nil {
		if unknown, ok := errors.AsType[*UnknownError](err); ok {
			return s, fmt.Errorf("%w%s", err, p.meant(unknown))
		}
		return s, err
	}
	return s, nil
}

// meant suggests a correction for a name that is not a part.
func (p Parts) meant(unknown *UnknownError) string {
	for _, kind := range p.Kinds {
		if d := kind.Describe(); slices.Contains(strings.Split(unknown.Kind, " or "), d.Name) {
			for _, one := range kind.Parts() {
				if near := part.Nearest(unknown.Name, one.Name, one.Near); near != "" {
					return near
				}
			}
		}
	}
	return part.Meant(unknown.Name, unknown.Known)
}

// settingFields returns the settings that a stack in a file can have.
func settingFields(s *Settings) []field {
	congestion := shape{
		doc: "TCP congestion control of this stack's cells; the default is that of the experiment.", example: "bbr",
		values: choices(CongestionControls()[1:]...),
		take:   func(text string) error { s.Congestion = text; return nil },
	}
	return []field{
		{name: "mtu", shape: shape{
			doc: "MTU of every link of this stack, in bytes; the default is that of the experiment.", pattern: `^[0-9]+B?$`,
			number: true, example: "9000",
			take: func(text string) (err error) { s.MTU, err = mtu(text); return err },
		}},
		{name: "congestion-control", alias: "congestion_control", shape: congestion},
	}
}

// settingFactors returns the settings as factors.
func settingFactors(f *Factors) []field {
	congestion := listOf(&f.Congestions, shape{
		doc: "TCP congestion control of all cells, as tune.congestion-control; of a list, the first is the baseline's, and " +
			"each stack is measured with all.",
		values: choices(CongestionControls()...),
	}, func(s string) (string, error) {
		if s == automatic && len(f.Congestions) > 0 {
			return "", errors.New("auto can only be the first one")
		}
		return s, nil
	})
	return []field{
		{name: "mtu", shape: listOf(&f.MTUs, shape{
			doc: "MTU of every link in bytes, as tune.mtu; of a list, the first is the baseline's, and each stack is " +
				"measured with all.", number: true, pattern: `^[0-9]+B?$`, example: "1500",
		}, mtu)},
		{name: "congestion-control", alias: "congestion_control", shape: congestion},
	}
}

// settle makes the first MTU and congestion control of the factors those of the experiment.
func (e *Experiment) settle(n *node) error {
	for _, name := range []string{"mtu", "congestion-control", "congestion_control"} {
		factor, tuned := n.at("factors", name), n.at("tune", name)
		if factor != nil && tuned != nil && (factor.line > 0 || tuned.line == 0) { // a flag replaces the value of a file
			return tuned.wrong("%s is given under factors too%s (valid: one of them)", name, first(factor.line))
		}
	}
	f := &e.Factors
	if f.MTUs != nil {
		e.Tune.MTU = f.MTUs[0]
	}
	if f.Congestions != nil {
		e.Tune.Congestion = f.Congestions[0]
	}
	if len(f.MTUs) == 1 {
		f.MTUs = nil
	}
	if len(f.Congestions) == 1 {
		f.Congestions = nil
	}
	return nil
}

// at returns the last of a path of keys; nil if there is none. Unlike [node.key], it only looks into objects.
func (n *node) at(path ...string) *node {
	for i, name := range path {
		at := n.index(name)
		if at < 0 {
			return nil
		}
		if i == len(path)-1 {
			return n.keys[at]
		}
		n = n.values[at]
	}
	return nil
}

// varied reports whether stacks of the experiment have MTUs and congestion controls of their own.
func (e Experiment) varied() (mtus, congestions bool) {
	mtus, congestions = len(e.Factors.MTUs) > 1, len(e.Factors.Congestions) > 1
	for _, s := range append(slices.Clone(e.Stacks), e.Baseline) {
		own := e.own(s.Settings)
		mtus, congestions = mtus || own.MTU != 0, congestions || own.Congestion != ""
	}
	return mtus, congestions
}

// settingParts returns the settings of a stack for the records: those that are not the same for all stacks.
func (e Experiment) settingParts(s Settings) []measure.Part {
	var list []measure.Part
	add := func(kind, value, usual, label string) {
		p := measure.Part{Kind: kind, Name: value, ID: value}
		if value == "" {
			p.Name, p.ID = usual, usual
		} else {
			p.Label = label
		}
		list = append(list, p)
	}
	labels := map[string]string{}
	for _, one := range s.list() {
		labels[one.Name] = stack.SettingLabel(one)
	}
	mtus, congestions := e.varied()
	if mtus {
		value := ""
		if s.MTU != 0 {
			value = strconv.Itoa(s.MTU)
		}
		add(kindMTU, value, strconv.Itoa(e.Tune.MTU), labels[settingMTU])
	}
	if congestions {
		add(kindCongestion, s.Congestion, e.Tune.Congestion, labels[settingCongestion])
	}
	return list
}

// unused returns why a congestion control from the factors has no effect in a group: none of its workloads has one to
// set. It is "" if one has.
func (g group) unused() string {
	reason := ""
	for _, m := range g.members {
		own, stream := m.params[settingCongestion]
		switch {
		case stream && own == automatic:
			return ""
		case stream:
			reason = fmt.Sprintf("%s has a congestion control of its own, %s", m.workload.Describe().Name, own)
		case reason == "":
			reason = m.workload.Describe().Name + " has no TCP connection whose congestion control could be set"
		}
	}
	return reason
}
