package kubernetes_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// studied is what nettoll study policy prints as JSON, as far as it is needed here.
type studied struct {
	Rounds int
	Values []struct {
		Direction, Metric string
		Rules             int
		Value, Resolution float64
		Answer            float64
	}
	Established []struct {
		Direction, Kind string
		For             float64
	}
	Exposures []struct {
		Direction            string
		Pods, Exposed, Open  int
		Median, Most, Lo, Hi float64
	}
	Fresh []struct {
		Egress, Ingress struct {
			Sent, Arrived int
			First, Last   float64
		}
	}
	NotEnforced []string `json:"not_enforced"`
}

// study runs nettoll study policy, and wants nothing to be left.
func (u *user) study(t *testing.T, args ...string) (found studied) {
	t.Helper()
	began := time.Now()
	cmd, out, said := u.command(t.Context(), append([]string{"study", "policy", "--output", "json"}, args...)...)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, said)
	}
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	t.Logf("%.1f s:\n%s", time.Since(began).Seconds(), out)
	gone(t, 30*time.Second, func() []string {
		return append(u.left(t), u.kubectl(t, "get", "networkpolicies", "--all-namespaces", "-o", "name")...)
	})
	return found
}

// Where the network plugin knows no policies, the study says so of both directions, and measures nothing.
func (u *user) unenforced(t *testing.T) {
	const least = 6 * time.Second // both directions are waited for
	began := time.Now()
	found := u.study(t, "--count", "2", "--patience", "3s", "--pods", "2")
	if took := time.Since(began); took < least || len(found.NotEnforced) != 2 || len(found.Values) > 0 ||
		len(found.Exposures) > 0 {
		t.Errorf("after %v: not enforced: %v, values %v, exposures %v; want both directions, and nothing else", took,
			found.NotEnforced, found.Values, found.Exposures)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--context", "nosuch"}, `kubectl has no context "nosuch" (valid: `},
		{[]string{"--namespace", "nosuch"}, `namespaces "nosuch" not found`},
		{[]string{"--image", "localhost:1/nosuch:v1"}, "nettoll image writes it"},
	} {
		cmd, out, said := u.command(t.Context(), append([]string{"study", "policy"}, c.args...)...)
		_ = cmd.Run() // its status says it
		if got := cmd.ProcessState.ExitCode(); got != 1 || out.Len() > 0 || !strings.Contains(said.String(), c.says) {
			t.Errorf("%v: status %d, want 1 and %q:\n%s\n%s", c.args, got, c.says, out, said)
		}
	}
}

// Policies take effect some time after the API's answer, and do so again and again. Established flows are watched. The
// exposure of fresh pods is that of a policy: one that comes late is seen late.
func (u *user) policyTimes(t *testing.T) {
	const most = 20.0 // s: then a policy counts as not enforced
	found := u.study(t, "--count", "2", "--rules", "0,100", "--follow", "1s", "--pods", "4", "--batch", "2")
	values := map[string]int{}
	for _, v := range found.Values {
		values[v.Metric]++
		// An effect comes after its request, and may come before the answer is read.
		after, off := v.Value+v.Answer+v.Resolution, v.Resolution
		if after <= 0 || v.Value > most || v.Answer <= 0 || v.Metric != "answer_time" && (off <= 0 || off > 1) {
			t.Errorf("%s, %s, %d rules: %.4f s ± %.4f s, and an answer in %.4f s; want an effect after the request, "+
				"at most %v s after the answer, and at most ± 1 s", v.Metric, v.Direction, v.Rules, v.Value, v.Resolution, v.Answer,
				most)
		}
	}
	for _, metric := range []string{"deny_time", "allow_time", "revoke_time", "open_time", "answer_time"} {
		if values[metric] != 8 { // two rounds, directions and numbers of rules
			t.Errorf("%d values of %s, want 8", values[metric], metric)
		}
	}
	if len(found.NotEnforced) > 0 || found.Rounds != 2 || len(found.Established) != 8 || len(found.Fresh) != 4 {
		t.Errorf("not enforced: %v; %d rounds, %d established flows, %d fresh pods; want none, 2, 8 and 4", found.NotEnforced,
			found.Rounds, len(found.Established), len(found.Fresh))
	}
	for _, n := range found.Fresh {
		if n.Egress.Sent < 100 || n.Ingress.Sent < 100 { // of 1000 in a life of 5 s
			t.Errorf("%d datagrams were sent from a fresh pod and %d to it, want some hundreds", n.Egress.Sent, n.Ingress.Sent)
		}
	}
	late := u.study(t, "--count", "1", "--rules", "0", "--follow", "0s", "--pods", "2", "--batch", "1", "--late", "1s")
	for _, e := range late.Exposures {
		// The pods run for a moment before the cluster knows it, and the policy takes effect a moment after it was made.
		if e.Exposed != 2 || e.Open != 0 || e.Median < 1 || e.Most > 5 {
			t.Errorf("%s, with a policy a second after the pods ran: %d of %d pods exposed, %d to their end, for %.3f s and %.3f s "+
				"at most; want both of them, for 1 to 5 s", e.Direction, e.Exposed, e.Pods, e.Open, e.Median, e.Most)
		}
	}
	if len(late.Exposures) != 2 || late.Exposures[0].Direction == late.Exposures[1].Direction {
		t.Errorf("exposures %+v, want those of ingress and of egress", late.Exposures)
	}
}
