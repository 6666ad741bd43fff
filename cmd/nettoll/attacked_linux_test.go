package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
)

// An attack that breaks a claim makes a run end with exit status 4, and the report says so: here somebody takes the rules
// of a filter away when the labs are attacked, after the last proof.
func TestBrokenByAttack(t *testing.T) {
	testnet.Root(t)
	testnet.Program(t, "nsenter", "util-linux")
	testnet.Program(t, "nft", "nftables")
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "attacked.yaml")
	const text = "baseline: {network: bridge}\nfactors: {network: [bridge], filter: [none, nftables], " +
		"placement: [same-host]}\nworkloads: [udp-rr]\ndesign: {time: 1s, trial: 10ms}\nproof: {attacks: [ports]}\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	s := prepare(t, filepath.Join(dir, "run"), path)
	s.cmd.Stderr = said
	s.begin()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(said.Name())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "lab 1 of 2, bridge/same-host/1: ports") { // the one without the filter is first
			break
		}
		select {
		case <-s.ended:
			t.Fatalf("the run ended before it attacked:\n%s", text)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("nothing is attacked after %v:\n%s", patience, text)
		}
	}
	for _, m := range s.members() {
		if len(m.args) < 4 || m.args[1] != "worker" || m.args[3] != "source@host1" {
			continue
		}
		if out, err := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", m.pid), "nft", "flush", "ruleset").
			CombinedOutput(); err != nil {
			t.Errorf("flush the rules: %v: %s", err, out)
		}
	}
	if status := s.wait(patience); status != 4 {
		t.Errorf("exit status %d, want 4", status)
	}
	log, _ := s.records()
	i := slices.IndexFunc(log.Attacks, func(a measure.Attacks) bool { return a.Lab == "bridge+nftables/same-host/1" })
	if i < 0 || len(log.Attacks[i].Attacks) != 1 || log.Attacks[i].Attacks[0].Verdict != measure.AttackBroken {
		t.Errorf("attacks %+v, want a broken claim", log.Attacks)
	}
	contains(t, "stdout", oneLine(s.stdout.String()),
		"bridge+nftables: attack ports: ipv4: UDP for 10.1.1.1, from src0, arrives at snk0")
}
