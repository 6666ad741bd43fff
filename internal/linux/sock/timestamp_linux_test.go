package sock

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/clock"
)

// Over loopback, the kernel reports when a datagram left and when it arrived, and both times are between the calls.
func TestTimestamps(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	loopback := netip.MustParseAddr("127.0.0.1")
	to, err := UDP(netip.AddrPortFrom(loopback, 0), netip.AddrPort{})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	at, err := to.Local()
	if err != nil {
		t.Fatal(err)
	}
	from, err := UDP(netip.AddrPortFrom(loopback, 0), at)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for _, s := range []Socket{from, to} {
		if err := s.SetStamps(); err != nil {
			t.Fatal(err)
		}
	}
	if left := from.Departed(0); left != 0 {
		t.Errorf("before anything was sent, it left at %d", left)
	}
	const patience = int64(1e9)
	offset := RealtimeOffset()
	start, seen := clock.Now(), 0
	for seen < 10 && clock.Now() < start+5*patience {
		var b [8]byte
		var came int64
		before := clock.Now() + offset
		if _, errno := from.Send(&b[0], len(b), 0); errno != 0 {
			t.Fatal(errno)
		}
		to.WaitRecv(patience)
		if n, errno := to.RecvStamped(&b[0], len(b), DontWait, &came); errno != 0 || n != len(b) {
			t.Fatalf("received %d bytes: %v", n, errno)
		}
		left, after := from.Departed(before), clock.Now()+offset
		if came == 0 && seen == 0 { // the kernel has not switched it on yet
			continue
		}
		seen++
		if before > left || left > came || came > after {
			t.Errorf("sent after %d, left at %d, came at %d, received before %d", before, left, came, after)
		}
		if again := from.Departed(0); again != 0 {
			t.Errorf("it left again at %d", again)
		}
	}
	if seen == 0 {
		t.Error("no datagram says when it came")
	}
}

// message returns a control message with the given size in its header.
func message(level, kind uint32, size uint64, data ...uint64) []byte {
	b := binary.NativeEndian.AppendUint64(nil, size)
	b = binary.NativeEndian.AppendUint32(b, level)
	b = binary.NativeEndian.AppendUint32(b, kind)
	for _, d := range data {
		b = binary.NativeEndian.AppendUint64(b, d)
	}
	return b
}

func TestStampIn(t *testing.T) {
	stamp := message(unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, 64, 3, 4, 0, 0, 0, 0)
	for _, tt := range []struct {
		control []byte
		n       int
		want    int64
	}{
		{stamp, 64, 3e9 + 4},
		{stamp, 1000, 3e9 + 4},
		{append(message(unix.SOL_IP, unix.IP_RECVERR, 21, 1), stamp...), 88, 3e9 + 4}, // padded to 24
		{append(message(unix.SOL_IP, unix.IP_RECVERR, 24, 1), stamp...), 87, 0},
		{stamp[:40], 40, 0},
		{stamp, 0, 0},
		{message(unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, 1<<63), 16, 0},
		{message(unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, 16), 16, 0},
	} {
		if got := stampIn(tt.control, tt.n); got != tt.want {
			t.Errorf("%d bytes of %x: %d, want %d", tt.n, tt.control, got, tt.want)
		}
	}
}

// FuzzStampIn checks that any bytes are read or skipped, and never read past their end.
func FuzzStampIn(f *testing.F) {
	f.Add(message(unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, 64, 3, 4, 0, 0, 0, 0), 64)
	f.Add(append(message(unix.SOL_IP, unix.IP_RECVERR, 21, 1),
		message(unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, 64, 3, 4, 0, 0, 0, 0)...), 88)
	f.Fuzz(func(_ *testing.T, control []byte, n int) { stampIn(control, n) })
}
