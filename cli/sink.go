package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/byhand"
	"github.com/nettoll/nettoll/internal/linux/thread"
)

func (a *app) sinkCommand() *cobra.Command {
	s := &byhand.Sink{Workloads: a.catalogue.Workloads, Version: a.versionText(), Say: func(what string) { fmt.Fprintln(a.Err, what) }}
	listen := ""
	port := strconv.Itoa(byhand.Port)
	cmd := &cobra.Command{
		Use:   "sink",
		Short: "Wait for nettoll source and be the other end of its traffic",
		Long: `Waits for nettoll source, which runs any workload against it by hand, and serves one source after another until it
is interrupted. What was measured is printed by the source; what happens here is said on standard error.

Sources find it at port ` + port + `, by TCP, over IPv4 and IPv6. The traffic goes to the first free ports after that, eight for each
pair: where there is a firewall, or a container publishes ports, let ` + port + ` to 8663 pass, by TCP and UDP.

Whoever can reach the port can make this program send and receive traffic, towards the address that it comes from.`,
		Example: `  nettoll sink                               then, elsewhere: nettoll source udp-rr THIS-MACHINE
  nettoll sink --listen 10.0.0.2:7000 --once
  nettoll sink --cpu 1                       its threads on CPU 1 alone
  docker exec -d web nettoll sink            inside a container`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := endpoint(listen)
			if err != nil {
				return usageError{fmt.Errorf("--listen: %w", err)}
			}
			if err := onCPUs(s.CPUs); err != nil {
				return err
			}
			// An interrupt is how it ends: there is nothing to report, which is what the message of other commands is about.
			ctx, stop := signal.NotifyContext(context.WithoutCancel(cmd.Context()), os.Interrupt, syscall.SIGTERM)
			defer stop()
			a.release()
			l, err := byhand.Listen(ctx, at)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Err, "nettoll sink waits at %s\n", l.Addr())
			done := make(chan error, 1)
			go func() { done <- s.Serve(ctx, l) }()
			select {
			case <-ctx.Done(): // threads of a trial that is under way end with the program
				return status(exitInterrupted)
			case err := <-done:
				if err != nil {
					return status(exitFailed) // which has been said
				}
				return nil
			}
		},
	}
	cmd.Flags().StringVar(&listen, "listen", ":"+port, "`ADDRESS:PORT` to wait at; without an address all of this machine's, without a port "+port)
	cmd.Flags().BoolVar(&s.Once, "once", false, "end after the first source that was served")
	cmd.Flags().IntSliceVar(&s.CPUs, "cpu", nil, "CPUs that its threads run on, in turn (default anywhere)")
	numbers(cmd, "listen", "cpu")
	return cmd
}

// endpoint completes an address, or a name, with the port of sinks.
func endpoint(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		// Without a port: a name, an address, or one of IPv6 with or without its brackets.
		bare := s
		if len(s) > 1 && s[0] == '[' && s[len(s)-1] == ']' {
			bare = s[1 : len(s)-1]
		}
		if host, port, err = net.SplitHostPort(net.JoinHostPort(bare, strconv.Itoa(byhand.Port))); err != nil {
			return "", fmt.Errorf("%q is no address (want one such as 10.0.0.2, 10.0.0.2:7000 or [fd00::2]:7000)", s)
		}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q: %q is no port (want 0 to 65535)", s, port)
	}
	return net.JoinHostPort(host, port), nil
}

// onCPUs says whether this process may run on CPUs.
func onCPUs(wanted []int) error {
	may, err := thread.CPUs()
	if err != nil {
		return err
	}
	for _, cpu := range wanted {
		found := false
		for _, m := range may {
			found = found || m == cpu
		}
		if !found {
			return usageError{fmt.Errorf("--cpu: %d is not possible (here there are %v)", cpu, may)}
		}
	}
	return nil
}
