//go:build !linux

package dockertest

import (
	"io"
	"os/exec"
	"testing"
)

func isolate(*exec.Cmd) {}

func guard(string, string, io.Reader, io.Writer, io.Writer) int { return 1 }

func removeCgroup(testing.TB, string) {}
