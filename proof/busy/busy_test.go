package busy

import (
	"os"
	"path/filepath"
	"testing"
)

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

func TestColumn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	text := "entries  allocs table_fulls\n00000003 0005e9f5 000002a5\n00000003 00050381 0000030f\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := column(path, 2); got != 0x2a5+0x30f {
		t.Errorf("%d, want %d", got, 0x2a5+0x30f)
	}
	if got := column(path, 3) + column(path+"x", 0); got != 0 {
		t.Errorf("%d in a column and a file that do not exist", got)
	}
}
