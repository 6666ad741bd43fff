package export

import (
	"fmt"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// provedLine is what the proofs of a run say of one lab.
type provedLine struct {
	Type    string       `json:"type"` // "protects"
	Lab     string       `json:"lab"`
	Allowed measure.Held `json:"allowed"`
	Refused measure.Held `json:"refused"`
	Others  measure.Held `json:"others"`
	// Inside and Wire are attacks, with those that the lab withstood of those that it claims to withstand, and those that
	// it does not and that got through.
	Inside          measure.Held     `json:"inside_attacks"`
	InsideWithstood int              `json:"inside_withstood"`
	InsideClaimed   int              `json:"inside_claimed"`
	InsideOpen      int              `json:"inside_open"`
	Wire            measure.Held     `json:"wire_attacks"`
	WireWithstood   int              `json:"wire_withstood"`
	WireClaimed     int              `json:"wire_claimed"`
	WireOpen        int              `json:"wire_open"`
	NotAttacked     string           `json:"not_attacked,omitempty"` // why
	Untold          []measure.Untold `json:"attacks_untold,omitempty"`
	Broken          []string         `json:"broken,omitempty"`
	Tried           int              `json:"tried"`
	Of              int              `json:"of"`
	NotTried        []string         `json:"not_tried,omitempty"`
	Unknown         []string         `json:"unknown,omitempty"` // why some tries or claims cannot be told
	// Unsent is how many of the tries the rights of containers refused, and UnsentKinds what they were.
	Unsent      int      `json:"unsent,omitempty"`
	UnsentKinds []string `json:"unsent_kinds,omitempty"`
}

func newProvedLine(p measure.ProvedLab) provedLine {
	return provedLine{
		Type: "protects", Lab: p.Lab, Allowed: p.Allowed, Refused: p.Refused, Others: p.Others,
		Inside: p.Inside.Claims(), InsideWithstood: p.Inside.Held, InsideClaimed: p.Inside.Claimed, InsideOpen: p.Inside.Open,
		Wire: p.Wire.Claims(), WireWithstood: p.Wire.Held, WireClaimed: p.Wire.Claimed, WireOpen: p.Wire.Open,
		NotAttacked: p.NotAttacked, Untold: p.Untold,
		Broken: p.Broken, Tried: p.Tried, Of: p.Of, NotTried: p.NotTried, Unknown: p.Unknown,
		Unsent: p.Unsent, UnsentKinds: p.UnsentKinds,
	}
}

// provedFields returns the rows of CSV about what a lab protects: each has a claim as its parameter, what became of it
// as its verdict, and the value 1 if it held, 0 if it did not. Attacks that were made have as further parameters how
// many the lab withstood, claims to withstand, and lets through without a claim.
func provedFields(p measure.ProvedLab, ended string, kinds []string) (rows [][]string) {
	counts := func(claim string, w measure.Withstood) string {
		if w.Made == 0 {
			return claim
		}
		return fmt.Sprintf("%s withstood=%d claimed=%d open=%d", claim, w.Held, w.Claimed, w.Open)
	}
	for _, x := range []struct {
		claim string
		held  measure.Held
	}{
		{"allowed", p.Allowed},
		{"refused", p.Refused},
		{"others", p.Others},
		{counts("inside-attacks", p.Inside), p.Inside.Claims()},
		{counts("wire-attacks", p.Wire), p.Wire.Claims()},
	} {
		values := map[string]string{
			"cell": p.Lab, "metric": "proof", "unit": "1", "verdict": string(x.held), "parameters": "claim=" + x.claim,
			"ended": ended,
		}
		switch x.held {
		case measure.HeldAlways:
			values["value"] = "1"
		case measure.HeldNot:
			values["value"] = "0"
		case measure.NotClaimed, measure.HeldUntold, measure.NotProved:
		}
		var fields []string
		for _, c := range columns(kinds) {
			fields = append(fields, values[c])
		}
		rows = append(rows, fields)
	}
	return rows
}

// provedCases returns test cases about what the labs of a run protect: what did not hold is a failure, and what was not
// tried is skipped.
func provedCases(a *measure.Analysis) (list []junitCase) {
	for _, p := range a.Proved() {
		for _, x := range []struct {
			name string
			held measure.Held
		}{
			{"allowed works", p.Allowed},
			{"refused holds", p.Refused},
			{"other claims", p.Others},
		} {
			one := junitCase{Class: report.Printable(p.Lab), Name: x.name}
			said := &junitProblem{Message: report.Printable(p.Lab) + ": " + x.name + ": " + string(x.held), Type: string(x.held)}
			switch x.held {
			case measure.HeldNot:
				if p.Reached != nil && len(p.Reached.Leaks) > 0 {
					said.Message += ": " + report.Printable(p.Reached.Leaks[0])
				}
				one.Failure = said
			case measure.HeldUntold, measure.NotProved:
				one.Skipped = said
			case measure.HeldAlways:
			case measure.NotClaimed:
				continue
			}
			list = append(list, one)
		}
	}
	for i := range a.Attacks {
		list = append(list, attackCases(&a.Attacks[i])...)
	}
	return list
}

// attackCases returns a test case for each attack on a lab. What got through and must not is a failure. What was not
// tried, cannot be told or is not claimed is skipped. A lab that was not attacked is one case. An error after attacks
// were made is one more, and so is each control that was not attacked.
func attackCases(x *measure.Attacks) (list []junitCase) {
	class := report.Printable(x.Lab)
	if x.NotTried != "" {
		return []junitCase{{Class: class, Name: "attacks", Skipped: &junitProblem{
			Message: class + ": not attacked: " + report.Printable(x.NotTried), Type: string(measure.AttackNotTried),
		}}}
	}
	for _, a := range x.Attacks {
		one := junitCase{Class: class, Name: "attack " + report.Printable(a.Attack)}
		text, why := a.Said(), a.Why
		if a.Verdict == measure.AttackOpen || a.Verdict == measure.AttackClosed {
			text, why = "not claimed, "+text, strings.Join(a.NotClaimed, "; ")
		}
		said := &junitProblem{Message: class + ": " + a.Attack + ": " + text, Type: string(a.Verdict)}
		for _, in := range a.Families {
			if in.Why != "" && in.Why != why {
				why = strings.TrimPrefix(why+"; "+in.Why, "; ")
			}
		}
		if why != "" {
			said.Message += ": " + report.Printable(why)
		}
		switch a.Verdict {
		case measure.AttackBroken:
			if len(a.Holes) > 0 {
				said.Message += ": " + report.Printable(a.Holes[0])
			}
			one.Failure = said
		case measure.AttackWithstood:
			if a.Families != nil {
				one.Out = said.Message
			}
		case measure.AttackNotTried, measure.AttackUntold, measure.AttackUnsent, measure.AttackOpen, measure.AttackClosed:
			one.Skipped = said // what nothing is claimed of cannot fail either
		}
		list = append(list, one)
	}
	if x.Failed != "" {
		list = append(list, junitCase{Class: class, Name: "attacks", Error: &junitProblem{
			Message: class + ": failed after the attacks: " + report.Printable(x.Failed), Type: string(measure.HasFailed),
		}})
	}
	for _, c := range []struct{ name, why string }{
		{"control without the filter", x.NoControl}, {"control without the encryption", x.NoWireControl},
	} {
		if c.why != "" {
			list = append(list, junitCase{Class: class, Name: c.name, Skipped: &junitProblem{
				Message: class + ": the control was not attacked: " + report.Printable(c.why), Type: string(measure.AttackNotTried),
			}})
		}
	}
	return list
}
