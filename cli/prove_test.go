package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/threat"
)

func provedExamples() []provedLab {
	out := func(family string, arrived, sent int, holes ...string) attack.Outcome {
		return attack.Outcome{Family: family, Arrived: arrived, Sent: sent, Holes: holes}
	}
	return []provedLab{
		{
			Lab: "a+b/same-host/2", Stack: "a+b", Placement: "same-host", Pairs: 2,
			Control: "a/same-host/2",
			Proofs: []provedClaim{
				{Claim: "every pair passes packets", OK: true},
				{Claim: "no other ports", Detail: "snk0 answers"},
				{Claim: "no other pairs", OK: true, Untold: "a queue was full"},
			},
			Attacks: []attack.Result{
				{
					Attack: threat.Ports, Claimed: true, Verdict: attack.Withstood,
					Lab:     []attack.Outcome{out("ipv4", 0, 10), out("ipv6", 0, 12)},
					Control: []attack.Outcome{out("ipv4", 10, 10), out("ipv6", 12, 12)},
				},
				{
					Attack: threat.Types, Claimed: true, Verdict: attack.Broken,
					Families: []attack.InFamily{
						{Family: "ipv4", Verdict: attack.Broken}, {Family: "ipv6", Verdict: attack.Untold, Why: "a control failed"},
					},
					Lab:     []attack.Outcome{out("ipv4", 1, 10, "a redirect, from src0, arrives at snk1"), out("ipv6", 0, 10)},
					Control: []attack.Outcome{out("ipv4", 10, 10), out("ipv6", 10, 10)},
				},
				{
					Attack: threat.Guise, Verdict: attack.Open, NotClaimed: []string{"b believes everybody"},
					Lab: []attack.Outcome{out("ipv4", 2, 2), out("ipv6", 2, 2)},
				},
				{
					Attack: threat.Abstract, Claimed: true, Verdict: attack.Withstood,
					Lab: []attack.Outcome{out(attack.Neither, 0, 4)},
				},
				{Attack: threat.Bypass, Claimed: true, Verdict: attack.NotTried, Why: "the lab has nowhere to send it"},
			},
		},
		{
			Lab: "a@r/same-host/2", Stack: "a@r", Placement: "same-host", Pairs: 2, Rights: "no capabilities",
			Matrix: &measure.Matrix{
				From: []string{"src0"}, To: []string{"snk0"}, Cells: map[string][]string{"ipv4": {"x"}},
				Tried: map[string]int{"ipv4": 9}, Unsent: map[string]int{"ipv4": 7}, UnsentKinds: []string{"TCP SYN"},
			},
			Attacks: []attack.Result{{
				Attack: threat.Guise, Claimed: true, Verdict: attack.Unsent, Why: "no CAP_NET_RAW",
				Lab: []attack.Outcome{{Family: "ipv4", Unsent: 8, Refusal: "no CAP_NET_RAW"}},
			}},
		},
		{
			Lab: "c/same-host/2", Stack: "c", Placement: "same-host", Pairs: 2,
			NotTried: attack.ErrShared.Error(),
		},
		{
			Lab: "d/same-host/2", Stack: "d", Placement: "same-host", Pairs: 2, Failed: "a table is not empty",
			NoControl: "no room", NoWireControl: "no key",
			Attacks: []attack.Result{{
				Attack: threat.Guise, Claimed: true, Verdict: attack.Untold, Why: "it was not made: the host is gone",
				Lab: []attack.Outcome{{Family: "ipv4", Failed: "it was not made: the host is gone"}},
			}},
		},
	}
}

func TestWriteProved(t *testing.T) {
	for format, want := range map[string][]string{
		"text": {
			"a+b/same-host/2\n  ✓ every pair passes packets\n",
			"  ports     0 of 10        0 of 12  22 of 22            claimed and held\n",
			"  types     1 of 10        0 of 10  20 of 20            claimed and broken (IPv4), cannot be told (IPv6)\n",
			"  types: cannot be told (IPv6): a control failed\n",
			"  guise: open: b believes everybody\n", "0 of 4 ",
			"  ✗ types, ipv4: a redirect, from src0, arrives at snk1\n",
			"  bypass: not tried: the lab has nowhere to send it\n",
			"  2 of 4 attacks withstood that it claims to withstand, 1 broken; 1 not claimed and open; 1 not tried\n",
			"a@r/same-host/2\n  root in containers: no capabilities\n", "  who reaches whom, 2 packets\n",
			"  × refused by the container's rights\n  rights of the containers refused to send 7 packets: TCP SYN\n",
			"  guise   –              –     refused by the container's rights\n",
			"  guise: refused by rights: no CAP_NET_RAW\n",
			"  0 of 1 attack withstood that it claims to withstand; 1 refused by the container's rights\n",
			"c/same-host/2\n  not attacked: containers share",
			"  guise: cannot be told: it was not made: the host is gone\n  failed after the attacks: a table is not empty\n",
		},
		"csv": {
			"a+b/same-host/2,a+b,same-host,2,types,ipv4,true,broken,1,10,10,10,,,0,,broken\n",
			"a+b/same-host/2,a+b,same-host,2,types,ipv6,true,broken,0,10,10,10,a control failed,,0,,cannot be told\n",
			"a@r/same-host/2,a@r,same-host,2,guise,ipv4,true,refused by rights,0,0,,,no CAP_NET_RAW,,8,,refused by rights\n",
			"a+b/same-host/2,a+b,same-host,2,,,true,holds,0,0,,,,,0,every pair passes packets,\n",
			"a+b/same-host/2,a+b,same-host,2,,,true,broken,0,0,,,snk0 answers,,0,no other ports,\n",
			"a+b/same-host/2,a+b,same-host,2,,,true,cannot be told,0,0,,,a queue was full,,0,no other pairs,\n",
			"c/same-host/2,c,same-host,2,,,false,not tried,0,0,,,\"containers share",
		},
		"jsonl": {
			`"attack":"types","family":"ipv6","claimed":true,"verdict":"broken","arrived":0,"sent":10,"control_arrived":10`,
			`"claimed":true,"verdict":"broken","arrived":0,"sent":0,"why":"snk0 answers","claim":"no other ports"}`,
		},
		"junit": {
			`<testsuites name="nettoll prove" tests="14" failures="2" errors="1" skipped="8">`,
			`<testcase classname="a+b/same-host/2" name="every pair passes packets"></testcase>`,
			`<failure message="a+b/same-host/2: types: broken (IPv4), cannot be told (IPv6): a control failed: ipv4: a redirect, from src0, arrives at snk1" type="broken">`,
			`<skipped message="a+b/same-host/2: bypass: not tried: the lab has nowhere to send it" type="not tried">`,
			`<skipped message="a+b/same-host/2: guise: not claimed, open: b believes everybody" type="open">`,
			`<testcase classname="c/same-host/2" name="attacks">`,
			`<error message="d/same-host/2: failed after the attacks: a table is not empty" type="failed"></error>`,
			`<skipped message="d/same-host/2: the control was not attacked: no room" type="not tried"></skipped>`,
			`<testcase classname="d/same-host/2" name="control without the encryption">`,
			`<skipped message="d/same-host/2: the control was not attacked: no key" type="not tried"></skipped>`,
			`<skipped message="c/same-host/2: not attacked: containers share`,
		},
		"json": {
			`"verdict": "broken"`, `"failed": "a table is not empty"`, `"failed": "it was not made: the host is gone"`,
			`"not_tried": "containers share`,
		},
	} {
		var b strings.Builder
		if err := writeProved(&b, provedExamples(), format); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s lacks %q:\n%s", format, w, b.String())
			}
		}
	}
}

// Attacks from inside and from the wire are summed up apart.
func TestSumOfSides(t *testing.T) {
	l := provedLab{Attacks: []attack.Result{
		{Attack: threat.Ports, Claimed: true, Verdict: attack.Withstood},
		{Attack: threat.Guise, Verdict: attack.Open},
		{Attack: threat.WireSniff, Claimed: true, Verdict: attack.Broken},
		{Attack: threat.WireFlip, Claimed: true, Verdict: attack.Withstood},
	}}
	want := "from inside: 1 of 1 attack withstood that it claims to withstand; 1 not claimed and open\n" +
		"  from the wire: 1 of 2 attacks withstood that it claims to withstand, 1 broken"
	if got := l.sum(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	l.Attacks = l.Attacks[2:]
	if got, want := l.sum(), "1 of 2 attacks withstood that it claims to withstand, 1 broken"; got != want {
		t.Errorf("from the wire alone: %q, want %q", got, want)
	}
}

// A claim that does not hold is exit status 4, and what could not be told is 3.
func TestProvedStatus(t *testing.T) {
	verdicts := func(all ...attack.Verdict) provedLab {
		var l provedLab
		for _, v := range all {
			l.Attacks = append(l.Attacks, attack.Result{Verdict: v})
		}
		return l
	}
	for _, c := range []struct {
		lab  provedLab
		want error
	}{
		{verdicts(attack.Withstood, attack.Open, attack.Closed, attack.NotTried, attack.Unsent), nil},
		{verdicts(attack.Withstood, attack.Untold), status(exitPartly)},
		{verdicts(attack.Untold, attack.Broken), status(exitUnproven)},
		{provedLab{Proofs: []provedClaim{{OK: false}}}, status(exitUnproven)},
		{provedLab{Attacks: []attack.Result{{Claimed: true, Verdict: attack.NotTried}}}, nil},
		{provedLab{Proofs: []provedClaim{{OK: true, Untold: "not sent"}}}, status(exitPartly)},
		{provedLab{Matrix: &measure.Matrix{Filtered: true, NotTried: "interrupted"}}, status(exitPartly)},
		{provedLab{Matrix: &measure.Matrix{NotTried: "the containers share a namespace"}}, nil},
		{provedLab{failed: true}, status(exitPartly)},
		{provedLab{Failed: "the host is gone"}, status(exitPartly)},
	} {
		if got := provedStatus([]provedLab{verdicts(attack.Withstood), c.lab}); !errors.Is(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.lab, got, c.want)
		}
	}
}

func TestChosenAttacks(t *testing.T) {
	got, err := chosenAttacks([]string{"takeover", "ports"})
	if err != nil || len(got) != 2 || got[0] != threat.Ports {
		t.Errorf("%v, %v: want ports, then takeover", got, err)
	}
	if _, err := chosenAttacks([]string{"port"}); err == nil || !strings.Contains(err.Error(), "port-zero") {
		t.Errorf("%v: want the attacks that there are", err)
	}
}
