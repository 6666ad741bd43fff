package bpf

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	ebpflink "github.com/cilium/ebpf/link"
)

// settling is how long a new link of another process may take until it can be queried.
const settling = time.Second

// EachLink calls f for each eBPF link on the machine, and closes the link after the call. A link that is being made
// already has a number but cannot be queried yet (EAGAIN, bpf_link_by_id, kernel/bpf/syscall.c); EachLink waits for it.
func EachLink(f func(ebpflink.Link) error) error {
	it := new(ebpflink.Iterator)
	defer func() { it.Close() }()
	for deadline := time.Now().Add(settling); ; time.Sleep(time.Millisecond) {
		for it.Next() {
			if err := f(it.Link); err != nil {
				return err
			}
			deadline = time.Now().Add(settling)
		}
		err := it.Err()
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(deadline) {
			if err != nil {
				return fmt.Errorf("list links of programs: %w", err)
			}
			return nil
		}
		it = &ebpflink.Iterator{ID: it.ID} // continues after the last one
	}
}
