package docker

import (
	"context"
	"slices"

	"github.com/nettoll/nettoll/host"
)

// A Default is a [Daemon] that makes Docker's default bridge, docker0, with an IPv6 range.
type Default struct {
	Daemon
	IPv6 string
}

// Apply starts the daemon with the arguments of [Daemon], but for the one by which it makes no default bridge.
func (d Default) Apply(ctx context.Context, k *host.Kernel) error {
	prepared, err := d.prepared(k)
	if err != nil {
		return err
	}
	args := prepared.Program.Args
	i := slices.Index(args, "--bridge")
	prepared.Program.Args = append(slices.Delete(args, i, i+2), "--ipv6", "--fixed-cidr-v6", d.IPv6)
	return prepared.Apply(ctx, k)
}

// Run runs a command of a user by the daemon of a host.
func Run(ctx context.Context, k *host.Kernel, args ...string) (string, error) {
	cmd, err := command(ctx, k, args...)
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
