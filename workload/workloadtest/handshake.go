package workloadtest

import (
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload"
)

// The number of TCP, and flags in its header (RFC 9293, section 3.1).
const (
	tcp     = 6
	flagsAt = 13
	syn     = 0x02
	ack     = 0x10
)

// Handshakes checks that a workload over TCP gets its connections although packets of their handshakes are lost: the
// first SYN, the first SYN-ACK or the first acknowledgement of that.
func Handshakes(t *testing.T, load workload.Workload, given map[string]string) {
	for _, lost := range []struct {
		what  string
		from  workload.Side
		flags byte
	}{
		{"SYN", workload.Source, syn},
		{"SYN-ACK", workload.Sink, syn | ack},
		{"ACK", workload.Source, ack},
	} {
		t.Run(lost.what, func(t *testing.T) {
			places := Veth(t)
			done := make(chan error, 1)
			lose(t, places[lost.from], lost.flags, done)
			r := NewRig(t, load, Options{Pairs: 1, Length: 100 * time.Millisecond, Given: given, Where: places})
			if trial, _ := r.Trial(t); trial.Failure() != "" {
				t.Error(trial.Failure())
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// lose drops the packets with these flags that leave a place, until it has dropped one.
func lose(t *testing.T, at Where, flags byte, done chan<- error) {
	t.Helper()
	const family, table, chain = "inet", "lose", "output"
	w := ruleset.Word(0)
	lost := ruleset.Rule(nil).LoadMeta(w, ruleset.Protocol).Equal(w, tcp)
	lost = lost.Load(w, ruleset.TransportHeader, flagsAt, 1).Equal(w, flags).Count().Drop()
	testnet.Skip(t, at.Do(func() error {
		return ruleset.Add(ruleset.Table{Family: family, Name: table, Chains: []ruleset.Chain{
			{Name: chain, Hook: &ruleset.Hook{Name: "output"}, Rules: ruleset.All(lost, ruleset.Rule(nil).Accept())},
		}})
	}))
	go func() {
		done <- at.Do(func() error {
			for ; t.Context().Err() == nil; time.Sleep(time.Millisecond) {
				found, err := ruleset.Read(family, table, chain)
				if err != nil {
					return err
				}
				if found[0].Packets > 0 {
					return ruleset.Delete(family, table)
				}
			}
			return t.Context().Err()
		})
	}()
}
