package ruleset

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/nft"
)

// Add makes a table. The table does not decide packets before it is complete: if it is too large for one transaction,
// its hooks are in the last one. If the table already exists, the error is [nft.ErrExists]; if the kernel lacks
// something, it is a [linux.UnsupportedError].
func Add(t Table) error { return add(t, maxTransaction) }

func add(t Table, most int) error {
	what := fmt.Sprintf("make table %q of nftables (%s)", t.Name, t.Family)
	if _, ok := families()[t.Family]; !ok {
		return fmt.Errorf("%s: unknown family (known: inet, bridge, netdev)", what)
	}
	b := NewBatch(t.Family, t.Name)
	b.addTable()
	for _, c := range t.Chains {
		if c.Hook == nil {
			b.AddChain(c.Name)
		}
	}
	for i, s := range t.Sets {
		b.addSet(s, uint32(i+1))
	}
	for _, s := range t.Sets {
		b.AddElements(s.Name, s.Elements)
	}
	hooked := 0
	for _, last := range []bool{false, true} {
		hooked = len(b.buf)
		for _, c := range t.Chains {
			if (c.Hook != nil) != last {
				continue
			}
			if c.Hook != nil {
				b.chain(c.Name, c.Hook)
			}
			for r := range c.Rules {
				b.AddRule(c.Name, r)
			}
		}
	}
	added, _, err := b.send(hooked, most)
	if err != nil && added {
		err = errors.Join(err, Delete(t.Family, t.Name))
	}
	if errors.Is(err, unix.EEXIST) {
		err = nft.ErrExists
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Commit makes the changes of the batch, all or none, and returns the added rules if [Batch.Echo] was set.
func (b *Batch) Commit() ([]Placed, error) {
	if len(b.buf) == 0 {
		return nil, nil
	}
	some, placed, err := b.send(len(b.buf), maxTransaction)
	if some && err == nil {
		err = errors.New("it was too large for one transaction")
	}
	if err != nil {
		return nil, fmt.Errorf("change table %q of nftables: %w", b.table, err)
	}
	return placed, nil
}

// Delete removes a table and everything in it. If it is already gone, the error is [nft.ErrNotFound].
func Delete(family, name string) error {
	b := NewBatch(family, name)
	b.deleteTable()
	_, _, err := b.send(len(b.buf), maxTransaction)
	if errors.Is(err, unix.ENOENT) {
		err = nft.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("remove table %q of nftables (%s): %w", name, family, err)
	}
	return nil
}
