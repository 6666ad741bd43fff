package procfs

import "testing"

func TestNetSoftirqs(t *testing.T) {
	const text = `                    CPU0       CPU1       
          HI:          1          0
       TIMER:    8934235    9023412
      NET_TX:         12          3
      NET_RX:    1000000     200000
       BLOCK:      10000      20000
`
	if got, err := netSoftirqs(text); err != nil || got != 1200015 {
		t.Errorf("%d, %v, want 1200015", got, err)
	}
	for _, wrong := range []string{"", "NET_TX: 1 2\n", "NET_TX: 1\nNET_RX: x\n"} {
		if got, err := netSoftirqs(wrong); err == nil {
			t.Errorf("%q: %d, want an error", wrong, got)
		}
	}
	before, err := NetSoftirqs()
	if err != nil {
		t.Fatal(err)
	}
	if after, err := NetSoftirqs(); err != nil || after < before {
		t.Errorf("%d softirqs after %d, %v", after, before, err)
	}
}

func TestUsedMemory(t *testing.T) {
	got, known := usedMemory([]byte("MemTotal:        4000 kB\nMemFree:         1 kB\nMemAvailable:    1500 kB\n"))
	if got != 2500<<10 || !known {
		t.Errorf("%d, %v, want %d", got, known, 2500<<10)
	}
	if got, known := usedMemory([]byte("MemTotal:        4000 kB\n")); known {
		t.Errorf("without MemAvailable: %d", got)
	}
	if got, known := UsedMemory(); !known || got <= 0 {
		t.Errorf("of this machine: %d, %v", got, known)
	}
}
