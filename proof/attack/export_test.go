package attack

import (
	"os"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// Within calls f in a network namespace.
func Within(ns *os.File, f func(h *link.Handle) error) error { return within(ns, f) }

// Seen has f called with each packet of each try of an attack: what it is, its number if the try is of several kinds (a
// protocol, a type), and whether it has arrived anywhere.
func (t *Target) Seen(f func(o Outcome, what, each string, number uint16, arrived bool)) { t.seen = f }

// Midway has f called when half of a flood of addresses is sent.
func (t *Target) Midway(f func()) { t.midway = f }

// Sampled returns at most some of a list.
func Sampled(list []int, atMost int) []int { return sampled(list, atMost) }
