package bpf

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	ebpflink "github.com/cilium/ebpf/link"
)

// settling is how long a link of somebody else may take until it can be asked for.
const settling = time.Second

// EachLink calls f for each link of programs on the machine, which is closed after the call. A link that is about to be
// made has a number and cannot be asked for yet (EAGAIN, bpf_link_by_id, kernel/bpf/syscall.c): it is waited for.
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
		it = &ebpflink.Iterator{ID: it.ID} // it goes on behind the last one
	}
}
