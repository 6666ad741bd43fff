package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/internal/testnet"
)

// Nettoll prove makes the proofs of a run on a live lab, too: those of the list, of the path, and of what the wire shows
// and hides. What was changed in the lab since it was built is found by them, and not only by the plan.
func TestProveLiveLab(t *testing.T) {
	testnet.Root(t)
	ip := testnet.Program(t, "ip", "iproute2")
	const stack = "bridge+nftables+wireguard"
	s, err := catalogue.New().Kinds.Parse(stack)
	if err != nil {
		t.Fatal(err)
	}
	testnet.Skip(t, s.Check())
	up := nettoll(t, "lab", "up", "--stack", stack, "--placement", "cross-host", "--pairs", "2", "--time", "5m")
	if up.status != 0 {
		t.Fatalf("lab up exits with %d: %s", up.status, up.stderr)
	}
	lab, _, _ := strings.Cut(strings.TrimPrefix(up.stdout, "lab "), ": ")
	defer func() {
		if down := nettoll(t, "lab", "down", lab); down.status != 0 {
			t.Errorf("lab down exits with %d: %s", down.status, down.stderr)
		}
	}()
	prove := func(status int) map[string]bool {
		t.Helper()
		proved := nettoll(t, "prove", "--lab", lab, "--attack", "none", "--output", "json")
		var labs []struct {
			Proofs []struct {
				Claim  string `json:"claim"`
				OK     bool   `json:"ok"`
				Untold string `json:"untold"`
			} `json:"proofs"`
		}
		if err := json.Unmarshal([]byte(proved.stdout), &labs); err != nil || len(labs) != 1 || proved.status != status {
			t.Fatalf("prove exits with %d, want %d: %v\n%s\n%s", proved.status, status, err, proved.stdout, proved.stderr)
		}
		found := map[string]bool{}
		for _, p := range labs[0].Proofs {
			for _, claim := range []string{
				"every pair passes packets", "packets go to the neighbours that the plan has", "packets between hosts are WireGuard", "nothing that containers send can be read",
				"no source is answered at a port of its sink that is not on the list",
			} {
				if strings.Contains(p.Claim, claim) {
					found[claim] = p.OK && p.Untold == ""
				}
			}
			t.Logf("%t: %s %s", p.OK, p.Claim, p.Untold)
		}
		return found
	}
	for range 2 { // workers end with the proofs, and the next ones need their ports
		found := prove(0)
		if len(found) != 5 {
			t.Errorf("%v: want five claims", found)
		}
		for claim, held := range found {
			if !held {
				t.Errorf("%q does not hold", claim)
			}
		}
	}
	if got := nettoll(t, "lab", "exec", "--lab", lab, "src0", "--", ip, "link", "set", "eth0", "mtu", "1280"); got.status != 0 {
		t.Fatalf("ip exits with %d: %s", got.status, got.stderr)
	}
	if found := prove(4); found["every pair passes packets"] {
		t.Error("packets of full size pass a link with a smaller MTU")
	}
}
