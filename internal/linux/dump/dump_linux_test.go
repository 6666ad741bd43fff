package dump

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// A listing that was interrupted is repeated, another failure is not, and not all of them can be interrupted.
func TestWhole(t *testing.T) {
	other := errors.New("other")
	for _, c := range []struct {
		fails []error
		calls int
		want  error
	}{
		{nil, 1, nil},
		{[]error{netlink.ErrDumpInterrupted, netlink.ErrDumpInterrupted}, 3, nil},
		{[]error{other}, 1, other},
		{slices.Repeat([]error{netlink.ErrDumpInterrupted}, most), most, netlink.ErrDumpInterrupted},
	} {
		calls := 0
		got, err := Whole(func() ([]int, error) {
			if calls++; calls <= len(c.fails) {
				return []int{0}, c.fails[calls-1]
			}
			return []int{0, 1}, nil
		})
		if !errors.Is(err, c.want) || calls != c.calls || err == nil && len(got) != 2 {
			t.Errorf("%v: %v, %v after %d calls, want %v after %d", c.fails, got, err, calls, c.want, c.calls)
		}
	}
}
