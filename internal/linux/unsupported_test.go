package linux_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/nettoll/nettoll/internal/linux"
)

func TestUnsupportedError(t *testing.T) {
	for _, c := range []struct {
		name string
		err  *linux.UnsupportedError
		want string
	}{
		{"bare", &linux.UnsupportedError{What: "attach"}, "attach: not supported here"},
		{
			"full",
			&linux.UnsupportedError{
				What: `make bridge "br0"`, Missing: `link type "bridge"`, Hint: "load its module",
				Err: fs.ErrPermission,
			},
			`make bridge "br0": not supported here: missing link type "bridge": permission denied (hint: load its module)`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.err.Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			wrapped := fmt.Errorf("step: %w", c.err)
			if !errors.Is(wrapped, errors.ErrUnsupported) {
				t.Error("it is not errors.ErrUnsupported")
			}
			if c.err.Err != nil && !errors.Is(wrapped, c.err.Err) {
				t.Error("it is not its cause")
			}
		})
	}
}
