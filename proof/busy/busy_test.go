package busy

import "testing"

func TestWatch(t *testing.T) {
	full := uint64(0)
	excused := Watch(func() uint64 { return full })
	if full++; !excused() {
		t.Error("a queue that dropped a packet is no excuse")
	}
	for of, want := range map[int]int{0: 1, 9: 1, 20: 2, 300: 30} {
		if got := Few(of); got != want {
			t.Errorf("%d of %d may be sent once more, want %d", got, of, want)
		}
	}
}
