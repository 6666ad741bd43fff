package link

import (
	"errors"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
)

// TestShape checks that the kernel has the shape that was set, and that differences are reported.
func TestShape(t *testing.T) {
	for name, s := range map[string]Shape{
		"rate":   {Rate: 1e9, MTU: 1500},
		"delay":  {Delay: 5 * time.Millisecond, Loss: 0.01, MTU: 1500},
		"jitter": {Delay: 5 * time.Millisecond, Jitter: 2 * time.Millisecond, MTU: 1500},
		"all":    {Rate: 1e8, Delay: 5 * time.Millisecond, Jitter: 2 * time.Millisecond, Loss: 0.01, MTU: 1500},
	} {
		t.Run(name, func(t *testing.T) {
			m := testnet.New(t)
			var h *Handle
			if err := m.Do(func() (err error) { h, err = Open(); return err }); err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			index, err := h.AddVeth(Veth{Name: "a", PeerName: "b", PeerNS: m.NS})
			testnet.Skip(t, errors.Join(err, h.SetShape(index, s)))
			if want, got, err := h.CompareShape(index, s); err != nil || want != got {
				t.Errorf("it is %q (%v), want %q", got, err, want)
			}
			other := s
			other.Rate, other.Jitter = 5e8, s.Delay/2
			if want, got, err := h.CompareShape(index, other); err != nil || want == got {
				t.Errorf("it is %q (%v), and another shape is %q", got, err, want)
			}
		})
	}
}
