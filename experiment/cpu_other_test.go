//go:build !linux

package experiment_test

import (
	"testing"
	"time"
)

// cpuTime is not read here: TestCrossingBombs bounds CPU time on Linux only.
func cpuTime(*testing.T) time.Duration { return 0 }
