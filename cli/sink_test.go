package cli

import (
	"testing"

	"github.com/nettoll/nettoll/byhand"
)

// Without --memory, sessions get an eighth of the memory. One always gets what it needs; more of them are refused if
// they need more than that.
func TestDefaultMemory(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		machine  int64
		sessions int
		want     int64
		err      string
	}{
		{machine: 16 * gib, sessions: 1, want: 2 * gib},
		{machine: 16 * gib, sessions: 10, want: 2 * gib},
		{
			machine: 16 * gib, sessions: 11,
			err: "--sessions 11: each needs 192 MiB, together more than an eighth of this machine's memory, 2048 MiB " +
				"(hint: fewer sessions, or --memory 2112MiB)",
		},
		{machine: gib, sessions: 1, want: byhand.LeastMemory},
		{
			machine: gib, sessions: 2,
			err: "--sessions 2: each needs 192 MiB, together more than an eighth of this machine's memory, 128 MiB " +
				"(hint: fewer sessions, or --memory 384MiB)",
		},
		{machine: 0, sessions: 4, want: 4 * byhand.LeastMemory}, // unknown
	} {
		got, err := defaultMemory(c.machine, c.sessions)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if got != c.want || said != c.err {
			t.Errorf("%d sessions of %d bytes: got %d, %q, want %d, %q", c.sessions, c.machine, got, said, c.want, c.err)
		}
	}
}
