package attack

import (
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Who waits for the packets of a try waits on while some arrive, and not for ever.
func TestQuiet(t *testing.T) {
	magic := []byte("magic---")
	for _, c := range []struct {
		name    string
		packets int // one each 5 ticks
		want    time.Duration
	}{
		{"nothing arrives", 0, 12 * tick},
		{"three are late", 3, 28 * tick},
		{"they never end", 30, 100 * tick},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				taps := newTaps()
				var sent sync.WaitGroup
				sent.Go(func() {
					time.Sleep(tick / 2)
					for i := range 30 {
						time.Sleep(5 * tick)
						taps.note(atLink, 0, 0, []byte("a packet of somebody else"), magic)
						if i < c.packets {
							packet := binary.BigEndian.AppendUint32(slices.Clip(magic), uint32(i))
							taps.note(atLink, 0, 0, append(packet, 0, 0), magic)
						}
					}
				})
				began := time.Now()
				taps.quiet(12, 100)
				if took := time.Since(began); took != c.want {
					t.Errorf("it waits %v, want %v", took, c.want)
				}
				sent.Wait()
			})
		})
	}
}
