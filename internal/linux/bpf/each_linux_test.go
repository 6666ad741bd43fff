package bpf_test

import (
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/testnet"
)

// While other goroutines make and close links, each link that exists the whole time is found exactly once.
func TestEachLinkWhileOthersComeAndGo(t *testing.T) {
	testnet.Root(t)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.RawTracepoint, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	attach := func() (link.Link, error) {
		return link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_exec", Program: p})
	}
	standing := map[link.ID]bool{}
	for range 8 {
		l, err := attach()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		info, err := l.Info()
		if err != nil {
			t.Fatal(err)
		}
		standing[info.ID] = true
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	defer close(stop)
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				l, err := attach()
				if err != nil {
					t.Error(err)
					return
				}
				_ = l.Close()
			}
		})
	}
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		found := map[link.ID]int{}
		if err := bpf.EachLink(func(l link.Link) error {
			info, err := l.Info()
			if err != nil {
				return err
			}
			found[info.ID]++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for id := range standing {
			if found[id] != 1 {
				t.Fatalf("link %d is found %d times", id, found[id])
			}
		}
	}
}
