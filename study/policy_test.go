package study

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/deploy/kubernetes"
	"github.com/nettoll/nettoll/measure"
)

func TestPolicyPlan(t *testing.T) {
	for what, change := range map[string]func(*PolicyPlan){
		"":                                       func(*PolicyPlan) {},
		"value 0 for --count (valid: 1 to 1000)": func(p *PolicyPlan) { p.Rounds = 0 },
		"value -1 for --pods (valid: 0 to 10000)":      func(p *PolicyPlan) { p.Pods = -1 },
		"value 101 for --batch (valid: 1 to 100)":      func(p *PolicyPlan) { p.Batch = 101 },
		"value 51ms for --every (valid: 1ms to 50ms)":  func(p *PolicyPlan) { p.Every = 51 * time.Millisecond },
		"value 1s for --patience (valid: 2s to 10m0s)": func(p *PolicyPlan) { p.Patience = time.Second },
		"value -1ns for --follow (valid: 0s to 10m0s)": func(p *PolicyPlan) { p.Follow = -1 },
		"value 1s for --life (valid: 2s to 5m0s)":      func(p *PolicyPlan) { p.Life = time.Second },
		"value 1h0m0s for --late (valid: 0s to 5m0s)":  func(p *PolicyPlan) { p.Late = time.Hour },
		"--rules: none is given (valid: 0 to 1000":     func(p *PolicyPlan) { p.Rules = nil },
		"value 1001 for --rules (valid: 0 to 1000)":    func(p *PolicyPlan) { p.Rules = []int{0, 1001} },
		"invalid value for --rules: 10 is given twice": func(p *PolicyPlan) { p.Rules = []int{10, 10} },
	} {
		p := DefaultPolicyPlan()
		change(&p)
		err := p.Check()
		if (err == nil) != (what == "") || err != nil && !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", what, err)
		}
	}
}

// found are results with what each view has to say.
func foundPolicies() *Policies {
	p := &Policies{
		Plan:    DefaultPolicyPlan(),
		Cluster: map[string]any{"cluster": "c", "kubernetes": "v1", "network_plugins": []string{"calico:v3"}},
		Nodes:   []string{"n1", "n2"}, Rounds: 3,
	}
	for round, x := range []float64{0.2, 0.4, 0.3} {
		p.note(PolicyValue{round + 1, kubernetes.Ingress, 0, metricDeny, x, 0.01 * x, 0.1})
	}
	p.note(PolicyValue{1, kubernetes.Egress, 1000, metricOpen, 2, 0.004, 0.1})
	for round, went := range []bool{true, true, false} {
		s := Survival{Round: round + 1, Direction: kubernetes.Ingress, Kind: kubernetes.FlowUDP, WentOn: went}
		if !went {
			s.For, s.Resolution = 1.5, 0.005
		}
		p.Survivals = append(p.Survivals, s)
	}
	p.Controls = []kubernetes.Newborn{
		{Egress: kubernetes.Passed{Arrived: 9, First: 0.001}, Ingress: kubernetes.Passed{Arrived: 9, First: 0.7}},
	}
	open := kubernetes.Passed{Sent: 1000, Arrived: 980, First: 0.1, Last: 4.9}
	p.Births = make([]kubernetes.Newborn, 10)
	p.Births[3].Egress = kubernetes.Passed{Sent: 1000, Arrived: 20, First: 0.002, Last: 0.1}
	p.Births[4].Egress = open
	return p
}

func TestPolicyFigures(t *testing.T) {
	lo, hi := 0.3-0.1/1.7320508*4.8487, 0.3+0.1/1.7320508*4.8487 // Student's t for 96 % and two degrees of freedom
	want := []PolicyFigure{
		{kubernetes.Ingress, 0, metricDeny, measure.UnitSecond, 0.3, &lo, &hi, 0.3, 0.2, 0.4, 0.004, 3},
		{kubernetes.Egress, 1000, metricOpen, measure.UnitSecond, 2, nil, nil, 2, 2, 2, 0.004, 1},
	}
	if diff := cmp.Diff(want, foundPolicies().Figures(), cmpopts.EquateApprox(0, 1e-4)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExposures(t *testing.T) {
	want := []Exposure{
		{Direction: kubernetes.Ingress, Pods: 10, Hi: 0.3085, Seen: 0.7},
		{
			Direction: kubernetes.Egress, Pods: 10, Exposed: 2, Lo: 0.0252, Hi: 0.5561, Datagrams: 1000, Median: 2.5, Most: 4.9,
			Open: 1, Seen: 0.001,
		},
	}
	if diff := cmp.Diff(want, foundPolicies().Exposures(), cmpopts.EquateApprox(0, 1e-4)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPoliciesText(t *testing.T) {
	p := foundPolicies()
	p.Failed = append(p.Failed, "egress, 0 rules, round 1: it broke")
	p.Unenforced = append(p.Unenforced, kubernetes.Egress)
	var text strings.Builder
	if err := p.Text(&text); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(text.String()), " ")
	for _, part := range []string{
		"Cluster c, Kubernetes v1, calico:v3; flows from node n1 to n2, a message each 5ms.",
		"Not enforced: egress. 20s after the API's answer to a policy that refuses everything, nothing was refused.",
		"deny_time: from the API's answer", "ingress, 0 rules 300 ms 20.1 ms 580 ms 300 ms 200 ms 400 ms 4 ms 3",
		"egress, 1000 rules 2 s – – 2 s 2 s 2 s 4 ms 1",
		"Established UDP flow, ingress refused: It went on in 2 of 3 rounds, until it was no longer watched (5s after new " +
			"flows were refused). It ended in 1 of 3 rounds, 1.5 s to 1.5 s after the API's answer (± 5 ms).",
		"Fresh pods: what got through although a policy refused it that was there before them",
		"ingress 10 0 0 % 30.8 % 0 – –", "egress 10 2 2.52 % 55.6 % 1000 2.5 s 4.9 s",
		"egress: 1 of 10 pods were still exposed at the end of their life (5s).",
		"Of 1 pods without a policy the first datagram arrived at them after 700 ms and from them after 1 ms (medians)",
		"Failed: egress, 0 rules, round 1: it broke.", "Only 3 of 5 rounds were completed.",
		"Only 10 of 100 fresh pods were measured.",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("the text lacks %q:\n%s", part, text.String())
		}
	}
}
