package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
)

// made is the script command `made DIR [KEY=VALUE]...`. It makes a run directory with invented records of a baseline,
// its twin and networks. Keys are seed; generations; kernel, mtu, nettoll and trial (ms) of the run; and names of
// networks. The value of a network is the ratio of its round trips to 13 µs, or "failed". The baseline is "host", with
// ratio 1.
func made(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: made DIR [KEY=VALUE]...")
	}
	given := map[string]string{
		"seed": "1", "generations": "5", "kernel": "6.12.9", "mtu": "1500", "nettoll": "v0.1.0", "trial": "50",
	}
	var networks []string
	for _, arg := range args[1:] {
		key, value, ok := strings.Cut(arg, "=")
		if !ok {
			ts.Fatalf("%q is not KEY=VALUE", arg)
		}
		if _, known := given[key]; !known && key != "host" {
			networks = append(networks, key)
		}
		given[key] = value
	}
	if networks == nil {
		networks, given["bridge"] = []string{"bridge"}, "1.1"
	}
	ts.Check(makeUp(ts.MkAbs(args[0]), networks, given))
}

func makeUp(dir string, networks []string, given map[string]string) error {
	seed, err := strconv.ParseUint(given["seed"], 10, 64)
	if err != nil {
		return err
	}
	generations, err := strconv.Atoi(given["generations"])
	if err != nil {
		return err
	}
	trial, err := strconv.ParseFloat(given["trial"], 64)
	if err != nil {
		return err
	}
	run := measure.Run{
		Name: "made", Started: time.Date(2026, 11, 20, 9, 0, int(seed), 0, time.UTC),
		Versions: map[string]string{"nettoll": given["nettoll"]},
		Facts:    map[string]any{"kernel": given["kernel"], "cpu": "Example 9000", "cpus": 2, "mtu": given["mtu"]},
		Design:   measure.Design{Precision: 0.02, Time: 40, Generations: 5, Seed: seed, TrialSeconds: map[string]float64{}},
	}
	const where = "/same-host/1/udp-rr(payload=64,mode=spin)"
	cell := func(network, twin, baseline string) {
		id := network + where + twin
		run.Design.TrialSeconds[id] = trial / 1000
		run.Cells = append(run.Cells, measure.Cell{
			ID: id, Baseline: baseline, Twin: twin != "", Group: "udp-rr(payload=64,mode=spin)|same-host|1|ipv4|split",
			Stack: network, Label: strings.Replace(network, "host", "loopback", 1),
			Parts: []measure.Part{{Kind: "network", Name: network, ID: network, Label: network}}, Placement: "same-host",
			Pairs: 1, Family: "ipv4", Affinity: "split", Workload: "udp-rr",
			Params: map[string]string{"payload": "64", "mode": "spin"}, Primary: "latency_p50",
		})
	}
	cell("host", "", "")
	cell("host", "#2", "host"+where)
	for _, n := range networks {
		cell(n, "", "host"+where)
	}
	var records, described bytes.Buffer
	if err := measure.WriteRun(&described, run); err != nil {
		return err
	}
	w := measure.NewWriter(&records)
	if err := w.Write(measure.Begin{Run: measure.RunSum(described.Bytes())}); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	const blocks = 4
	for g := range generations {
		for i, c := range run.Cells {
			ratio, failed := 1.0, ""
			switch value := given[c.Stack]; {
			case value == "failed":
				failed = "no answer within 2 s"
			case value != "":
				if ratio, err = strconv.ParseFloat(value, 64); err != nil {
					return err
				}
			}
			level := math.Log(13e-6*ratio) + 0.004*r.NormFloat64()
			if err := w.Write(measure.Proof{
				Generation: g + 1, Lab: c.ID, Claim: "every pair passes packets of 1500 bytes both ways, unfragmented", When: "before",
				OK: true,
			}); err != nil {
				return err
			}
			for b := range blocks {
				t := measure.Trial{
					Generation: g + 1, Block: g*blocks + b, Cell: c.ID, Start: float64(g*blocks+b) + 0.1*float64(i),
					Duration: 0.9 * trial / 1000,
				}
				if t.Failed = failed; failed == "" {
					x := math.Exp(level + 0.002*r.NormFloat64())
					t.Metrics = map[string]float64{"latency_p50": x, "transaction_rate": 1 / x, "loss": 0}
				}
				if err := w.Write(t); err != nil {
					return err
				}
			}
		}
		if err := errors.Join(w.Write(measure.Generation{Generation: g + 1, Blocks: blocks}), w.Sum()); err != nil {
			return err
		}
	}
	if err := errors.Join(w.Write(measure.End{Why: measure.EndTime, Detail: "the time is up"}), w.Sum()); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "run.json"), described.Bytes(), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "records.jsonl"), records.Bytes(), 0o666)
}

// Two runs that were measured one after the other in the same way can be compared. A comparison of a run with itself
// shows no difference.
func TestCompareRealRuns(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	args := []string{"--time", "2s", "--workload", "udp-rr(mode=spin)", "--network", "bridge"}
	var dirs []string
	for _, seed := range []string{"1", "2"} {
		s := start(t, append(args, "--seed", seed)...)
		if status := s.wait(patience); status != 0 {
			t.Fatalf("exit status %d, want 0", status)
		}
		dirs = append(dirs, s.dir)
	}
	said := nettoll(t, "compare", dirs[0], dirs[1])
	if said.status != 0 || said.stderr != "" {
		t.Errorf("compare exits with %d and says %s", said.status, said.stderr)
	}
	contains(t, "the comparison", said.stdout, "latency p50 over loopback", "latency p50 over host", "95 % interval",
		"seed 1", "seed 2", "loopback: ")
	if strings.Contains(said.stdout, "unlike") || strings.Contains(said.stdout, "failed") {
		t.Errorf("two equal runs:\n%s", said.stdout)
	}

	said = nettoll(t, "compare", dirs[0], dirs[0], "--fail-on", "slower", "--all", "--format", "csv")
	if said.status != 0 || !strings.Contains(said.stderr, "OLD and NEW are the same directory") {
		t.Errorf("a run with itself: exit status %d, %s", said.status, said.stderr)
	}
	for _, word := range []measure.Verdict{measure.Slower, measure.Faster, measure.Higher, measure.Lower} {
		if strings.Contains(said.stdout, fmt.Sprintf(",%s,", word)) {
			t.Errorf("a run is %s than itself:\n%s", word, said.stdout)
		}
	}
}
