package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
)

// A provedLab is what `prove --output json` says of a lab.
type provedLab struct {
	Lab       string          `json:"lab"`
	Stack     string          `json:"stack"`
	Placement string          `json:"placement"`
	Pairs     int             `json:"pairs"`
	Rights    string          `json:"rights,omitempty"` // of root in its containers
	Proofs    []provedClaim   `json:"proofs,omitempty"`
	Matrix    *measure.Matrix `json:"matrix,omitempty"` // who reaches whom
	Attacks   []attack.Result `json:"attacks,omitempty"`
	// NotTried is why the lab was not attacked.
	NotTried string `json:"not_tried,omitempty"`
	// Failed is an error after attacks were made. They are judged all the same.
	Failed string `json:"failed,omitempty"`
	// Control names the lab without the filter, and NoControl says why it was not attacked.
	Control   string `json:"control,omitempty"`
	NoControl string `json:"no_control,omitempty"`
	// WireControl names the lab without the encryption, and NoWireControl says why it was not attacked.
	WireControl   string `json:"wire_control,omitempty"`
	NoWireControl string `json:"no_wire_control,omitempty"`

	failed bool // it could not be built
}

type provedClaim struct {
	Claim  string `json:"claim"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	Untold string `json:"untold,omitempty"` // why it cannot be told, if nothing was seen against it (OK is true)
}

func provedClaims(proofs []measure.Proof) (list []provedClaim) {
	for _, p := range proofs {
		list = append(list, provedClaim{p.Claim, p.OK, p.Detail, p.Untold})
	}
	return list
}

// holds says whether all that a lab claims holds, as far as it was tried.
func (l provedLab) holds() bool {
	return !slices.ContainsFunc(l.Proofs, func(c provedClaim) bool { return !c.OK }) &&
		!slices.ContainsFunc(l.Attacks, func(r attack.Result) bool { return r.Verdict == attack.Broken })
}

func provedStatus(list []provedLab) error {
	if slices.ContainsFunc(list, func(l provedLab) bool { return !l.holds() }) {
		return status(exitUnproven)
	}
	if slices.ContainsFunc(list, func(l provedLab) bool {
		return l.failed || l.Failed != "" || slices.ContainsFunc(l.Attacks, func(r attack.Result) bool {
			return r.Verdict == attack.Untold // what a lab has nothing for is not tried, which is no doubt
		}) || slices.ContainsFunc(l.Proofs, func(c provedClaim) bool { return c.Untold != "" }) ||
			l.Matrix != nil && l.Matrix.Filtered && l.Matrix.NotTried != ""
	}) {
		return status(exitPartly)
	}
	return nil
}

// provedRow is a line of JSON and a row of CSV: an attack in one family, or another claim, which has neither attack nor
// family.
type provedRow struct {
	Lab       string         `json:"lab"`
	Stack     string         `json:"stack"`
	Placement string         `json:"placement"`
	Pairs     int            `json:"pairs"`
	Attack    attack.Attack  `json:"attack"`
	Family    string         `json:"family"`
	Claimed   bool           `json:"claimed"`
	Verdict   attack.Verdict `json:"verdict"` // over both families; of a claim a [measure.Held]
	Arrived   int            `json:"arrived"`
	Sent      int            `json:"sent"`
	// of the control
	ControlArrived *int   `json:"control_arrived,omitempty"`
	ControlSent    *int   `json:"control_sent,omitempty"`
	Why            string `json:"why,omitempty"`
	NotClaimed     string `json:"not_claimed,omitempty"`
	Unsent         int    `json:"unsent,omitempty"` // refused by the rights of the containers
	Claim          string `json:"claim,omitempty"`
	// FamilyVerdict is the verdict of the family alone.
	FamilyVerdict attack.Verdict `json:"family_verdict,omitempty"`
}

func provedRows(list []provedLab) (rows []provedRow) {
	for _, l := range list {
		for _, c := range l.Proofs {
			row := provedRow{
				Lab: l.Lab, Stack: l.Stack, Placement: l.Placement, Pairs: l.Pairs, Claimed: true, Claim: c.Claim,
				Verdict: attack.Verdict(measure.HeldAlways),
			}
			switch {
			case !c.OK:
				row.Verdict, row.Why = attack.Verdict(measure.HeldNot), c.Detail
			case c.Untold != "":
				row.Verdict, row.Why = attack.Verdict(measure.HeldUntold), c.Untold
			}
			rows = append(rows, row)
		}
		for _, r := range l.Attacks {
			outcomes := r.Lab
			if len(outcomes) == 0 {
				outcomes = []attack.Outcome{{}}
			}
			for _, o := range outcomes {
				row := provedRow{
					Lab: l.Lab, Stack: l.Stack, Placement: l.Placement, Pairs: l.Pairs, Attack: r.Attack, Family: o.Family,
					Claimed: r.Claimed, Verdict: r.Verdict, Arrived: o.Arrived, Sent: o.Sent, Why: r.Why,
					NotClaimed: strings.Join(r.NotClaimed, "; "), Unsent: o.Unsent, FamilyVerdict: r.Verdict,
				}
				for _, in := range r.Families {
					if in.Family == o.Family {
						row.FamilyVerdict, row.Why = in.Verdict, cmp.Or(in.Why, r.Why)
					}
				}
				for _, c := range r.Control {
					if c.Family == o.Family {
						row.ControlArrived, row.ControlSent = &c.Arrived, &c.Sent
					}
				}
				rows = append(rows, row)
			}
		}
		if l.NotTried != "" {
			rows = append(rows, provedRow{
				Lab: l.Lab, Stack: l.Stack, Placement: l.Placement, Pairs: l.Pairs, Verdict: attack.NotTried, Why: l.NotTried,
			})
		}
	}
	return rows
}

func writeProved(w io.Writer, list []provedLab, format string) error {
	switch format {
	case "json":
		return writeJSON(w, list)
	case "junit":
		return export.ProvenJUnit(w, provenOf(list))
	case "jsonl", "csv":
		s := sheet{columns: []string{
			"lab", "stack", "placement", "pairs", "attack", "family", "claimed", "verdict", "arrived", "sent",
			"control_arrived", "control_sent", "why", "not_claimed", "unsent", "claim",
			"family_verdict",
		}}
		number := func(n *int) string {
			if n == nil {
				return ""
			}
			return strconv.Itoa(*n)
		}
		for _, r := range provedRows(list) {
			s.objects = append(s.objects, r)
			s.rows = append(s.rows, []string{
				r.Lab, r.Stack, r.Placement, strconv.Itoa(r.Pairs), string(r.Attack), r.Family, strconv.FormatBool(r.Claimed),
				string(r.Verdict), strconv.Itoa(r.Arrived), strconv.Itoa(r.Sent), number(r.ControlArrived), number(r.ControlSent),
				r.Why, r.NotClaimed, strconv.Itoa(r.Unsent), r.Claim,
				string(r.FamilyVerdict),
			})
		}
		return s.write(w, format)
	}
	var b strings.Builder
	for i, l := range list {
		if i > 0 {
			fmt.Fprintln(&b)
		}
		l.text(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// provenOf returns labs as records have them.
func provenOf(list []provedLab) (labs []export.Proven) {
	for _, l := range list {
		one := export.Proven{Attacks: measure.Attacks{
			Lab: l.Lab, Attacks: control.Records(l.Attacks), NotTried: l.NotTried, Failed: l.Failed,
			NoControl: l.NoControl, NoWireControl: l.NoWireControl,
		}}
		for _, c := range l.Proofs {
			one.Claims = append(one.Claims, measure.Proof{
				Lab: l.Lab, Claim: c.Claim, OK: c.OK, Detail: c.Detail, Untold: c.Untold,
			})
		}
		labs = append(labs, one)
	}
	return labs
}

// text writes a lab: what it claims, then a line for each attack, then what arrived in words, and a sum.
func (l provedLab) text(w io.Writer) {
	fmt.Fprintf(w, "%s\n", l.Lab)
	if l.Rights != "" {
		fmt.Fprintf(w, "  root in containers: %s\n", l.Rights)
	}
	for _, c := range l.Proofs {
		mark, detail := "✓", ""
		switch {
		case !c.OK:
			mark, detail = "✗", ": "+c.Detail
		case c.Untold != "":
			mark, detail = "?", ": cannot be told: "+c.Untold
		}
		fmt.Fprintf(w, "  %s %s%s\n", mark, c.Claim, detail)
	}
	l.reach(w)
	if l.NotTried != "" {
		fmt.Fprintf(w, "  not attacked: %s\n", l.NotTried)
		return
	}
	if len(l.Attacks) == 0 && l.Failed == "" { // none was asked for
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "  attack\tarrived, ipv4\tipv6\t")
	compared := l.compared()
	if compared != "" {
		fmt.Fprintf(t, "%s\t", compared)
	}
	fmt.Fprintln(t, "verdict")
	for _, r := range l.Attacks {
		if len(r.Lab) == 0 && r.Verdict == attack.NotTried {
			continue
		}
		first := "ipv4"
		if len(r.Lab) == 1 {
			first = r.Lab[0].Family // it may have none
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t", r.Attack, share(r.Lab, first), share(r.Lab, "ipv6"))
		if compared != "" {
			fmt.Fprintf(t, "%s\t", share(r.Control, ""))
		}
		fmt.Fprintln(t, r.Text())
	}
	_ = t.Flush()
	l.whys(w)
	for _, r := range l.Attacks {
		if r.Verdict != attack.Broken {
			continue
		}
		for _, o := range r.Lab {
			for _, hole := range o.Holes {
				fmt.Fprintf(w, "  ✗ %s, %s: %s\n", r.Attack, o.Family, hole)
			}
		}
	}
	if l.Failed != "" {
		fmt.Fprintf(w, "  failed after the attacks: %s\n", l.Failed)
	}
	for _, why := range []string{l.NoControl, l.NoWireControl} {
		if why != "" {
			fmt.Fprintf(w, "  the control was not attacked: %s\n", why)
		}
	}
	fmt.Fprintf(w, "\n  %s\n", l.sum())
}

// compared is the heading of what came of attacks on controls, "" if there is none.
func (l provedLab) compared() string {
	filtered, protected := l.Control != "" && l.NoControl == "", l.WireControl != "" && l.NoWireControl == ""
	switch {
	case filtered && protected:
		return "without the filter or encryption"
	case filtered:
		return "without the filter"
	case protected:
		return "without the encryption"
	}
	return ""
}

// whys writes why something cannot be told, was not tried or is open, once for all attacks of which it is so.
func (l provedLab) whys(w io.Writer) {
	var reasons []string
	names := map[string][]string{}
	because := func(a attack.Attack, verdict, why string) {
		if why == "" {
			return
		}
		why = verdict + ": " + why
		if names[why] == nil {
			reasons = append(reasons, why)
		}
		names[why] = append(names[why], string(a))
	}
	for _, r := range l.Attacks {
		why := r.Why
		if r.Verdict == attack.Open && why == "" {
			why = strings.Join(r.NotClaimed, "; ")
		}
		for _, in := range r.Families {
			because(r.Attack, measure.InFamily(string(in.Verdict), in.Family), in.Why)
		}
		if !slices.ContainsFunc(r.Families, func(in attack.InFamily) bool { return in.Why == why }) {
			because(r.Attack, string(r.Verdict), why)
		}
	}
	for _, why := range reasons {
		fmt.Fprintf(w, "  %s: %s\n", strings.Join(names[why], ", "), why)
	}
}

// reach writes who reaches whom.
func (l provedLab) reach(w io.Writer) {
	m := l.Matrix
	if m == nil {
		return
	}
	if m.NotTried != "" {
		fmt.Fprintf(w, "  who reaches whom: not tried: %s\n", m.NotTried)
		return
	}
	tried, _ := m.All()
	var used []measure.Reach
	fmt.Fprintf(w, "\n  who reaches whom, %s\n", several(tried-m.Unsent["ipv4"]-m.Unsent["ipv6"], "packet"))
	for _, x := range report.Pictures(m) {
		fmt.Fprintf(w, "  %s\n", strings.TrimPrefix(x.Caption, ", "))
		for _, line := range x.Lines() {
			fmt.Fprintf(w, "  %s\n", line)
		}
		for _, row := range x.Cells {
			used = append(used, row...)
		}
	}
	fmt.Fprintf(w, "  %s\n", report.Legend(used))
	if why := m.Confined(); why != "" {
		fmt.Fprintf(w, "  %s\n", why)
	}
	for _, x := range append(append([]string{}, m.Leaks...), m.Missing...) {
		fmt.Fprintf(w, "  ✗ %s\n", x)
	}
	if m.Untold != "" {
		fmt.Fprintf(w, "  cannot be told: %s\n", m.Untold)
	}
	for _, what := range m.Untried {
		fmt.Fprintf(w, "  not tried: %s\n", what)
	}
}

// share is "3 of 120", of a family or of all.
func share(list []attack.Outcome, family string) string {
	arrived, sent := attack.Count(slices.DeleteFunc(slices.Clone(list), func(o attack.Outcome) bool {
		return family != "" && o.Family != family
	}))
	if sent == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d", arrived, sent)
}

// sum is the lab in a line: "12 of 14 attacks withstood that it claims to withstand, 1 broken; 2 not claimed and open".
// If some attacks came from inside and others from the wire, each side has a line of
// its own.
func (l provedLab) sum() string {
	inside, outside := sidesOf(l.Attacks)
	if len(inside) > 0 && len(outside) > 0 {
		return "from inside: " + sumOf(inside) + "\n  from the wire: " + sumOf(outside)
	}
	return sumOf(l.Attacks)
}

// sidesOf separates what came of attacks from inside from what came of those from the wire.
func sidesOf(list []attack.Result) (inside, outside []attack.Result) {
	for _, r := range list {
		if slices.Contains(wire.All(), r.Attack) {
			outside = append(outside, r)
		} else {
			inside = append(inside, r)
		}
	}
	return inside, outside
}

func sumOf(list []attack.Result) string {
	count := map[attack.Verdict]int{}
	claimed := 0
	for _, r := range list {
		count[r.Verdict]++
		if r.Claimed {
			claimed++
		}
	}
	broken := ""
	if n := count[attack.Broken]; n > 0 {
		broken = fmt.Sprintf(", %d broken", n)
	}
	texts := []string{fmt.Sprintf("%d of %s withstood that it claims to withstand%s", count[attack.Withstood],
		several(claimed, "attack"), broken)}
	for _, other := range []struct {
		of   attack.Verdict
		text string
	}{
		{attack.Open, "not claimed and open"},
		{attack.Closed, "not claimed and closed"},
		{attack.Untold, "cannot be told"},
		{attack.Unsent, "refused by the container's rights"},
		{attack.NotTried, "not tried"},
	} {
		if n := count[other.of]; n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, other.text))
		}
	}
	return strings.Join(texts, "; ")
}
