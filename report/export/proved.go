package export

import (
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
	// Inside and Wire are attacks, which only `nettoll prove` makes.
	Inside   measure.Held `json:"inside_attacks"`
	Wire     measure.Held `json:"wire_attacks"`
	Broken   []string     `json:"broken,omitempty"`
	Tried    int          `json:"tried"`
	Of       int          `json:"of"`
	NotTried []string     `json:"not_tried,omitempty"`
	// Unsent is how many of the tries the rights of containers refused, and UnsentKinds what they were.
	Unsent      int      `json:"unsent,omitempty"`
	UnsentKinds []string `json:"unsent_kinds,omitempty"`
}

func newProvedLine(p measure.ProvedLab) provedLine {
	return provedLine{
		"protects", p.Lab, p.Allowed, p.Refused, p.Others, measure.AttacksTried, measure.AttacksTried, p.Broken, p.Tried,
		p.Of, p.NotTried, p.Unsent, p.UnsentKinds,
	}
}

// provedFields returns the rows of CSV about what a lab protects: each has a claim as its parameter, what became of it
// as its verdict, and the value 1 if it held, 0 if it did not.
func provedFields(p measure.ProvedLab, ended string, kinds []string) (rows [][]string) {
	for _, x := range []struct {
		claim string
		held  measure.Held
	}{
		{"allowed", p.Allowed},
		{"refused", p.Refused},
		{"others", p.Others},
		{"inside-attacks", measure.AttacksTried},
		{"wire-attacks", measure.AttacksTried},
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
	return list
}
