package runtime

import (
	"errors"
	"testing"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/part"
)

// TestLimitsDevices wants an old crun to be refused with cgroup v2 alone, if it cannot raise the limit of locked memory.
func TestLimitsDevices(t *testing.T) {
	for _, c := range []struct {
		said           string
		v2Alone, locks bool
		refused        bool
	}{
		{"crun version 1.8.1", true, false, true},
		{"crun version 1.13", true, false, true},
		{"crun version 1.8.1", true, true, false},
		{"crun version 1.8.1", false, false, false},
		{"crun version 1.8.1", false, true, false},
		{"crun version 1.14", true, false, false},
		{"crun version 1.21.1", true, false, false},
		{"", true, false, false}, // it was built without a version
	} {
		err := limitsDevices("make containers by Podman", c.said, c.v2Alone, c.locks)
		_, is := errors.AsType[*linux.UnsupportedError](err)
		if is != c.refused || !is && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		const want = "make containers by Podman: not supported here: missing CAP_SYS_RESOURCE, which crun before 1.14 needs " +
			"with cgroup v2 alone: found crun 1.8.1 (hint: choose command=runc, install a newer crun, or give nettoll " +
			"CAP_SYS_RESOURCE)"
		if is && c.said == "crun version 1.8.1" && err.Error() != want {
			t.Errorf("%+v: %q, want %q", c, err, want)
		}
	}
	if err := CheckDevices("Podman", part.Params{Command: RunC}); err != nil {
		t.Errorf("with runc: %v", err)
	}
}
