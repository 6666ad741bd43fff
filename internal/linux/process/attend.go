package process

import (
	"context"
	"fmt"
	"io"
	"net"
)

// Ready is the message that [Attend] writes to control.
const Ready = "ready\n"

// Attend says to the parent of this process, through the child's end of [Control], that the process is ready. It
// returns nil when the parent closes its end or has ended, or else the first error of ended or of the context.
func Attend(ctx context.Context, control net.Conn, ended <-chan error) error {
	if _, err := io.WriteString(control, Ready); err != nil {
		return fmt.Errorf("say that the process is ready: %w", err)
	}
	closed := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, control)
		closed <- err
	}()
	select {
	case err := <-ended:
		return err
	case err := <-closed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
