package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
)

// Mix is the name of a load of several workloads at once.
const Mix = "mix"

// MixSummary describes a mix, like the summary of a [workload.Description].
const MixSummary = "several workloads at once, each on its share of the pairs and with its own figures, such as " +
	"mix(udp-rr(payload=64)*3,tcp-stream)"

// Limits of a mix. With more members, a report would have too many tables to compare.
const (
	minMembers = 2
	maxMembers = 8
	maxShare   = 1000
)

// Member is one workload of a mix.
type Member struct {
	Choice
	Share int `json:"share"` // of the pairs: its part of the sum of all shares
}

// IsMix reports whether a workload in command-line syntax is a mix.
func IsMix(s string) bool { return s == Mix || strings.HasPrefix(s, Mix+"(") }

// parseMix reads a mix in command-line syntax.
func parseMix(whole string) (Load, error) {
	l := Load{Choice: Choice{Name: Mix}, Alone: true}
	members, err := splitMix(whole)
	if err != nil {
		return Load{}, err
	}
	for _, text := range members {
		m := Member{Share: text.share}
		if m.Name, m.Params, err = part.Parse("workload", text.text); err != nil {
			return Load{}, fmt.Errorf("workload %q: %w", whole, err)
		}
		l.Mix = append(l.Mix, m)
	}
	return l, nil
}

// A writtenMember is a member of a mix in command-line syntax.
type writtenMember struct {
	text  string // "udp-rr(payload=64)"
	share int    // 1 if it is not given
}

func splitMix(whole string) ([]writtenMember, error) {
	list, closed := strings.CutSuffix(strings.TrimPrefix(whole, Mix+"("), ")")
	if !closed {
		return nil, fmt.Errorf("invalid workload %q (valid: mix(NAME*share,NAME(parameter=value,…)*share,…))", whole)
	}
	var members []writtenMember
	for _, text := range part.Split(list) {
		m := writtenMember{share: 1}
		if star := strings.LastIndexByte(text, '*'); star > strings.LastIndexByte(text, ')') {
			if err := wholeShare(strings.TrimSpace(text[star+1:]), &m.share); err != nil {
				return nil, fmt.Errorf("workload %q: share: %w", whole, err)
			}
			text = text[:star]
		}
		if m.text = strings.TrimSpace(text); IsMix(m.text) {
			return nil, fmt.Errorf("workload %q: %s", whole, notInMix(Mix))
		}
		members = append(members, m)
	}
	return members, nil
}

// mixes is the shape of a mix in a file: {mix: [{udp-rr: {payload: 64}, share: 3}, tcp-stream]}. Lists of values are
// crossed, also across members.
func mixes(e *Experiment, parts Parts) *shape {
	var at []Placement
	alone := true
	var members [][]Member // in the file's order; each member with all combinations of its parameters
	share := 1
	p := &partShape{kind: "workload", parts: parts.workloads(), refused: notInMix}
	p.begin = func() { members, share = append(members, nil), 1 }
	p.beside = []field{{name: "share", shape: shape{
		doc: "Share of the pairs that this member gets, relative to the sum of all " +
			"shares.", number: true, pattern: `^[0-9]+$`,
		example: "3",
		take:    func(s string) error { return wholeShare(s, &share) },
	}}}
	p.take = func(_ *node, name string, params part.Params) error {
		c := Choice{Name: name, Params: params}
		d, _, err := parts.described(c)
		if err != nil {
			return err
		}
		if reason := apart(d); reason != "" {
			return errors.New(reason)
		}
		of := &members[len(members)-1]
		*of = append(*of, Member{Choice: c, Share: share})
		return nil
	}
	each := part.Switch("alone", "")
	return &shape{
		doc: "Several workloads at once, each on its share of the pairs and with its own figures.",
		fields: []field{
			{name: Mix, required: true, shape: shape{
				doc: "The members.", items: &shape{parts: p}, least: minMembers, most: maxMembers,
			}},
			{name: "placement", shape: placements(&at)},
			{name: "alone", shape: shape{
				doc: "Whether each member is also measured alone, on the same pairs of the same labs and in the same blocks, so " +
					"that the report can say what the others do to it. A block takes a trial more for each member and stack.",
				pattern: `^(on|off|true|false|yes|no)$`, example: "off",
				take: func(s string) error {
					value, err := each.Value(s)
					alone = value == "true"
					return err
				},
			}},
		},
		done: func(n *node) error {
			loads, err := crossMembers(members)
			if err == nil && len(e.Workloads)+len(loads) > maxCells {
				loads, err = nil, fmt.Errorf("too many workloads: more than %d", maxCells)
			}
			for _, l := range loads {
				if err == nil {
					_, err = l.resolve(parts)
				}
				l.Placements, l.Alone = at, alone
				e.Workloads = append(e.Workloads, l)
			}
			at, members, alone = nil, nil, true
			if err != nil {
				return n.key(Mix).wrong("%w", err)
			}
			return nil
		},
	}
}

// crossMembers makes a mix of each combination of its members' parameters.
func crossMembers(members [][]Member) ([]Load, error) {
	loads := []Load{{Choice: Choice{Name: Mix}}}
	for _, alternatives := range members {
		if many := len(loads) * len(alternatives); many > maxCells {
			return nil, fmt.Errorf("too many combinations of the members' parameters: %d (limit %d)", many, maxCells)
		}
		var next []Load
		for _, l := range loads {
			for _, m := range alternatives {
				one := l
				one.Mix = append(slices.Clone(l.Mix), m)
				next = append(next, one)
			}
		}
		loads = next
	}
	return loads, nil
}

// described returns the workload of a choice, and its checked parameters.
func (p Parts) described(c Choice) (workload.Description, part.Params, error) {
	w, err := p.Workload(c.Name)
	if err != nil {
		return workload.Description{}, nil, err
	}
	d := w.Describe()
	params, err := d.Resolve(c.Params)
	return d, params, err
}

func wholeShare(s string, to *int) error { return whole(s, 1, maxShare, to) }

// notInMix returns why a word is not valid in a mix; "" if it is valid.
func notInMix(word string) string {
	switch word {
	case Mix:
		return "a mix cannot be a member of a mix: list its members in the outer mix"
	case "driver":
		return "members of a mix need nettoll's own engine, because other programs choose their own measuring time"
	case "placement":
		return "all members of a mix have the same placement: set placement on the mix"
	}
	return ""
}

// apart returns why a workload cannot be a member of a mix; "" if it can.
func apart(d workload.Description) string {
	if d.Whole {
		return fmt.Sprintf("%s cannot be a member of a mix, because its programs choose their own measuring time", d.Name)
	}
	return ""
}

// resolve finds the workloads of a load: one, or the members of a mix.
func (l Load) resolve(parts Parts) ([]member, error) {
	if l.Mix == nil {
		one, err := parts.member(Member{Choice: l.Choice}, l.Driver)
		return []member{one}, err
	}
	if len(l.Mix) < minMembers || len(l.Mix) > maxMembers {
		return nil, fmt.Errorf("a mix of %d workloads (valid: %d to %d)", len(l.Mix), minMembers, maxMembers)
	}
	if l.Driver != "" {
		return nil, errors.New(notInMix("driver"))
	}
	var all []member
	for _, m := range l.Mix {
		if m.Share < 1 || m.Share > maxShare {
			return nil, fmt.Errorf("share: %d is out of range (valid: 1 to %d)", m.Share, maxShare)
		}
		one, err := parts.member(m, "")
		if err != nil {
			return nil, err
		}
		if reason := apart(one.workload.Describe()); reason != "" {
			return nil, errors.New(reason)
		}
		if slices.ContainsFunc(all, func(o member) bool { return o.id == one.id }) {
			return nil, fmt.Errorf("%s is in the mix twice: list it once with a larger share", one.id)
		}
		all = append(all, one)
	}
	return all, nil
}

// member is a workload that runs on some pairs of a lab: on all of them, or on those of one member of a mix.
type member struct {
	workload workload.Workload
	params   part.Params
	told     []string      // names of the parameters in records
	driver   driver.Driver // nil: nettoll's own
	id       string        // id of workload and driver
	share    int
}

func (p Parts) member(m Member, drivenBy string) (member, error) {
	one := member{share: m.Share}
	d, params, err := p.described(m.Choice)
	if err != nil {
		return one, err
	}
	if one.workload, err = p.Workload(m.Name); err != nil {
		return one, err
	}
	one.params, one.id = params, d.ID(params)
	if drivenBy != "" {
		if one.driver, err = p.Driver(drivenBy); err != nil {
			return one, err
		}
		if err := one.driver.Serves(d, one.params); err != nil {
			return one, err
		}
		one.id = d.DrivenID(params, drivenBy)
	}
	return one, nil
}

// choices returns all workloads of an experiment, including members of mixes.
func (e Experiment) choices() []Choice {
	var all []Choice
	for _, l := range e.Workloads {
		if l.Mix == nil {
			all = append(all, l.Choice)
		}
		for _, m := range l.Mix {
			all = append(all, m.Choice)
		}
	}
	return all
}

// mixed reports whether the group's pairs have several workloads.
func (g group) mixed() bool { return len(g.members) > 1 }

// load returns the id of the workload, or of the mix in command-line syntax:
// "mix(udp-rr(payload=64,mode=wait)*3,tcp-stream(message=131072)*1)".
func (g group) load() string {
	if !g.mixed() {
		return g.members[0].id
	}
	return Mix + "(" + strings.Join(g.mix(), ",") + ")"
}

// mix lists the members of a mix with their shares; nil if the group is not a mix.
func (g group) mix() []string {
	if !g.mixed() {
		return nil
	}
	var list []string
	for _, m := range g.members {
		list = append(list, fmt.Sprintf("%s*%d", m.id, m.share))
	}
	return list
}

// others lists the members of a mix besides one.
func (g group) others(m member) []string {
	var list []string
	for _, o := range g.members {
		if o.id != m.id {
			list = append(list, o.id)
		}
	}
	return list
}

// of returns the part of an id that names a member, after its mix; "" if the group is not a mix.
func (g group) of(m member) string {
	if !g.mixed() {
		return ""
	}
	return ":" + m.id
}

// divide divides pairs by the largest remainder (A. Hamilton, 1792), with at least one pair for each share. There are
// at least as many pairs as shares.
func divide(pairs int, shares []int) []int {
	sum := 0
	for _, s := range shares {
		sum += s
	}
	counts := make([]int, len(shares))
	left := pairs
	for i, s := range shares {
		counts[i] = max(1, pairs*s/sum)
		left -= counts[i]
	}
	missing := func(i int) int { return pairs*shares[i] - counts[i]*sum } // in pairs, times the sum
	for ; left > 0; left-- {
		most := 0
		for i := range counts {
			if missing(i) > missing(most) {
				most = i
			}
		}
		counts[most]++
	}
	for ; left < 0; left++ { // shares that were raised to one pair get it from the share with the largest surplus
		least := -1
		for i := range counts {
			if counts[i] > 1 && (least < 0 || missing(i) < missing(least)) {
				least = i
			}
		}
		counts[least]--
	}
	return counts
}

// pairsOf divides the pairs of a group's labs among its members. The pairs of a member are consecutive, so that each
// member has some on every host and CPU, if there are enough.
func (g group) pairsOf() []int {
	shares := make([]int, len(g.members))
	for i, m := range g.members {
		shares[i] = max(1, m.share)
	}
	return divide(g.pairs, shares)
}

// trial returns the length of the group's trials, and the warm-up before the window opens. For a mix, both are the
// longest of any member.
func (g group) trial(asked time.Duration, cpus int) (length, warm time.Duration) {
	share, least := 0.0, time.Duration(0)
	for _, m := range g.members {
		d := m.workload.Describe()
		share = max(share, d.Warm)
		if d.Whole {
			least = max(least, d.Trial(m.params))
		}
		if m.driver != nil {
			length = m.driver.Trial(d, m.params)
			continue
		}
		length = max(length, d.Trial(m.params))
		if threads := threadsPerCPU(g.affinity, g.pairs, cpus) + g.programs; threads > 1 {
			length = max(length, turnsPerTrial*tick*time.Duration(threads))
		}
	}
	switch {
	case g.members[0].driver != nil:
		length = max(length, asked)
	case asked != 0:
		length = max(asked, least)
	}
	return length, time.Duration(share * float64(length))
}

// refused returns why a group cannot be measured; "" if it can.
func (g group) refused(cpus int) string {
	if n := len(g.members); g.pairs < n {
		return fmt.Sprintf("%d workloads need one pair each, but there are only %d (hint: set pairs to %d or "+
			"more)", n, g.pairs, n)
	}
	for _, m := range g.members {
		d := m.workload.Describe()
		// Both ends of a pair spin: if two of them share a CPU, each waits for the other for a tick.
		if d.Spins(m.params) && threadsPerCPU(g.affinity, g.pairs, cpus) > 1 {
			if g.mixed() {
				return fmt.Sprintf("%s spins and needs a CPU of its own, but %d pairs share %d CPUs (affinity "+
					"%s)", m.id, g.pairs, cpus,
					g.affinity)
			}
			pairs := "1 pair spins"
			if g.pairs > 1 {
				pairs = fmt.Sprintf("%d pairs spin", g.pairs)
			}
			return fmt.Sprintf("%s on %d CPUs (affinity %s), but each spinning pair needs CPUs of its "+
				"own", pairs, cpus, g.affinity)
		}
		if m.driver != nil && m.driver.Describe().IPv4Only && g.family == "ipv6" {
			return m.driver.Describe().Name + " cannot use addresses of IPv6"
		}
		if d.IPv4Only && g.family == "ipv6" {
			return d.Name + " cannot use addresses of IPv6"
		}
	}
	return ""
}

// excluded returns why a stack, named as in ids, cannot be measured with a group, and what is therefore left out; "" if
// it can be measured.
func (s Stack) excluded(named string, g group) (what, reason string) {
	if reason := s.Parts.Refuse(g.hosts); reason != "" {
		return named + "/" + string(g.placement), reason
	}
	if x, params, ok := stack.PartOf[network.PairExcluder](s.Parts); ok {
		if reason := x.ExcludePairs(g.pairs, params); reason != "" {
			return named + "/" + g.place(), reason
		}
	}
	translator, ofTranslator, translates := stack.PartOf[network.Translator](s.Parts)
	sharer, ofSharer, shares := stack.PartOf[network.Sharer](s.Parts)
	translates, shares = translates && translator.Translates(g.hosts, ofTranslator), shares && sharer.Shares(ofSharer)
	ported, _, filtered := stack.PartOf[network.Ported](s.Parts)
	filtered = filtered && ported.OnlyPorts()
	taken := map[string]bool{} // ports in use, by host
	if n, ofN, ok := stack.PartOf[network.IPv4Only](s.Parts); ok && g.family == "ipv6" {
		if reason := n.IPv4Only(ofN); reason != "" {
			return named + "/" + g.where(), reason
		}
	}
	first := 0
	for i, pairs := range g.pairsOf() {
		d := g.members[i].workload.Describe()
		switch {
		case translates && d.Alone:
			reason = fmt.Sprintf("%s uses no ports, and %s can only translate ports", d.Name, named)
		case filtered && d.Alone:
			reason = fmt.Sprintf("%s uses no ports, and %s can only allow ports", d.Name, named)
		case translates && d.Port != 0:
			reason = fmt.Sprintf("%s listens only at port %d, which %s does not allow", d.Name,
				d.Port, named)
		case shares && d.Port != 0:
			for pair := first; pair < first+pairs; pair++ {
				at := fmt.Sprintf("port %d of host %d", d.Port, Lab{Hosts: g.hosts}.SinkHost(pair))
				if taken[at] {
					reason = fmt.Sprintf("%s listens only at port %d, and under %s the %d pairs share it (hint: use another "+
						"baseline, or one pair per host)", d.Name, d.Port, named, g.pairs)
				}
				taken[at] = true
			}
		}
		if reason != "" {
			return named + "/" + g.where(), reason
		}
		first += pairs
	}
	return "", ""
}

// alone adds the cells of the last mix, which begin at base, a second time: each member by itself, in the same labs and
// on the same pairs, while the others are silent. The cells of each member are a group of their own, with a twin and so
// with a floor.
func (r *expansion) alone(base int) {
	const mark, twin = "+alone", "#2"
	called := func(id string) string {
		if first, ok := strings.CutSuffix(id, twin); ok {
			return first + mark + twin
		}
		return id + mark
	}
	for _, c := range r.Cells[base:] {
		c.Alone, c.Mix, c.Others = c.ID, nil, nil
		c.ID, c.Group = called(c.ID), c.Group+"|alone"
		if c.Baseline != "" {
			c.Baseline = called(c.Baseline)
		}
		c.Visit = len(r.Visits)
		r.Visits = append(r.Visits, Visit{ID: c.ID, Cells: []int{len(r.Cells)}})
		r.Cells = append(r.Cells, c)
	}
}
