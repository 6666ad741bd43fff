package runtime

import (
	"fmt"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// profile returns Docker's seccomp profile for this machine. What it allows depends on the capabilities of a container.
func profile(capabilities []string) (*specs.LinuxSeccomp, error) {
	p, err := seccomp.GetDefaultProfile(&specs.Spec{
		Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}},
	})
	if err != nil {
		return nil, fmt.Errorf("make Docker's seccomp profile: %w", err)
	}
	return p, nil
}
