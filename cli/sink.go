package cli

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/byhand"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/part"
)

// sinkFlags are the flags of `sink` that have to be converted, and the sink itself.
type sinkFlags struct {
	listen, memory, token string
	allow                 []string
	sink                  byhand.Sink
}

func sinkCommand(std Streams, of build, rights *privileges) *cobra.Command {
	f := &sinkFlags{sink: byhand.Sink{Say: func(what string) { fmt.Fprintln(std.Err, what) }}}
	port := strconv.Itoa(byhand.Port)
	cmd := &cobra.Command{
		Use:   "sink",
		Short: "Wait for nettoll source and serve its traffic",
		Long: `Waits for nettoll source, which runs any workload against it by hand, and serves one source after another
until it is interrupted. The source prints the results; the sink reports its own events on standard error.

Sources find the sink at port ` + port + `, by TCP, over IPv4 and IPv6. The traffic uses the first free ports after
that, eight for each pair. If there is a firewall, or a container publishes ports, let TCP and UDP pass at ports
` + port + ` to 8663.

Access. Anyone who can reach the port can make this program exchange traffic with the address that the request comes
from, using all of the CPU and the network. The traffic is neither encrypted nor authenticated: anyone on the path can
read and forge it, and anyone who can reach the ports can disturb a measurement. So run a sink only in a network that
you trust, or restrict it: --allow lists the addresses that it serves, and with --token it serves only sources that
know the token. The token itself never crosses the network, but it protects nothing after the greeting. Do not leave a
sink open to the internet without both.

Limits. A stranger cannot read a file, start a program, use more memory than --memory, end the sink, or keep others
out for long. Data in the buffers of a session's sockets counts as its memory. If buffers could grow too large for it,
as TCP's do by themselves, the sink limits them, and the source warns if that may lower its results. Not counted is
data that the kernel holds for connections which are not accepted yet or are closed already; net.ipv4.tcp_mem limits
that. Each source is served by its own process, so that a fault ends only that session. Each step of a session has a
deadline of seconds. A source that has to wait sees how many are ahead of it. A source that is served for longer
than --time while others wait has to leave after its trial. One source per address is served at a time (see
--per-address), and four may wait. An IPv6 address counts by its /64, because whoever has one address of a /64 can use
all 2^64 of them; so all link-local addresses together count as one. Someone with addresses in many networks can still
fill the 64 places, and with --once whoever measures a trial first is the one source that is served: --allow and
--token help.`,
		Example: `  nettoll sink                               then, elsewhere: nettoll source udp-rr THIS-MACHINE
  nettoll sink --listen 10.0.0.2:7000 --once
  nettoll sink --allow 10.0.0.0/24 --allow fd00::/64
  nettoll sink --token @secret               elsewhere: nettoll source udp-rr THIS-MACHINE --token @secret
  nettoll sink --cpu 1                       its threads only on CPU 1
  nettoll sink --sessions 4 --memory 2GiB    four sources at once, 512 MiB each; they disturb each other
  docker exec -d web nettoll sink            inside a container`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := &f.sink
			s.Version = of.versionText()
			if err := f.complement(); err != nil {
				return err
			}
			at, err := endpoint(f.listen)
			if err != nil {
				return usageError{fmt.Errorf("--listen: %w", err)}
			}
			if err := onCPUs(s.CPUs); err != nil {
				return err
			}
			// An interrupt is the normal end of a sink. The message of other commands, which promises a report, would be wrong.
			ctx, stop := signal.NotifyContext(context.WithoutCancel(cmd.Context()), os.Interrupt, syscall.SIGTERM)
			defer stop()
			rights.release()
			l, err := byhand.Listen(ctx, at)
			if err != nil {
				return err
			}
			fmt.Fprintf(std.Err, "nettoll sink waits at %s\n", l.Addr())
			done := make(chan error, 1)
			go func() { done <- s.Serve(ctx, l) }()
			select {
			case <-ctx.Done(): // threads of a running trial end with the program
				return status(exitInterrupted)
			case err := <-done:
				if err != nil {
					return status(exitFailed) // already reported
				}
				return nil
			}
		},
	}
	s := &f.sink
	cmd.Flags().StringVar(&f.listen, "listen", ":"+port,
		"`ADDRESS:PORT` to listen at; without an address all of this machine's, without a port "+port)
	cmd.Flags().BoolVar(&s.Once, "once", false, "exit after one source has measured something and left")
	cmd.Flags().StringArrayVar(&f.allow, "allow", nil, "serve only sources of this `CIDR` range or address, such as "+
		"10.0.0.0/24; may be given more than once (default everybody)")
	cmd.Flags().StringVar(&f.token, "token", "", "serve only sources that know this `TEXT`, 8 bytes or more; @FILE "+
		"reads it from a file, which keeps it out of ps")
	cmd.Flags().StringVar(&f.memory, "memory", "", "`SIZE` of memory that all sessions may use together, in equal "+
		"parts, such as 2GiB (default an eighth of this machine's, or "+strconv.Itoa(byhand.LeastMemory>>20)+
		"MiB for one session if that is more)")
	cmd.Flags().IntVar(&s.Sessions, "sessions", 1,
		"number of sources to serve at once; several disturb each other's results")
	cmd.Flags().IntVar(&s.PerAddress, "per-address", 1,
		"number of sources of one IPv4 address or IPv6 /64 to serve at once, at most --sessions")
	cmd.Flags().DurationVar(&s.Time, "time", 10*time.Minute, "how long to serve a source while others wait, at most")
	cmd.Flags().IntSliceVar(&s.CPUs, "cpu", nil, "CPUs for the threads of the sink, used in turn (default any)")
	numbers(cmd, "listen", "cpu", "allow", "token", "memory", "sessions", "per-address", "time")
	return cmd
}

// mostSessions is the largest number of sources served at once. Each has 512 ports.
const mostSessions = 64

// complement checks the flags and completes the sink.
func (f *sinkFlags) complement() (err error) {
	s := &f.sink
	if s.Allow, err = ranges(f.allow); err != nil {
		return usageError{fmt.Errorf("--allow: %w", err)}
	}
	if s.Token, err = token(f.token); err != nil {
		return usageError{fmt.Errorf("--token: %w", err)}
	}
	switch {
	case s.Sessions < 1 || s.Sessions > mostSessions:
		return usageError{fmt.Errorf("--sessions %d: out of range (valid: 1 to %d)", s.Sessions, mostSessions)}
	case s.PerAddress < 1:
		return usageError{fmt.Errorf("--per-address %d: out of range (valid: 1 or more)", s.PerAddress)}
	case s.Time < 0:
		return usageError{fmt.Errorf("--time %v: out of range (valid: 0s or more)", s.Time)}
	}
	least := int64(s.Sessions) * byhand.LeastMemory
	if f.memory == "" {
		s.Memory, err = defaultMemory(procfs.Memory(), s.Sessions)
		return err
	}
	if s.Memory, err = memory(f.memory); err != nil {
		return usageError{fmt.Errorf("--memory: %w", err)}
	}
	if s.Memory < least {
		return usageError{fmt.Errorf("--memory %s: too little (valid: %d MiB or more for each session, here %d MiB)",
			f.memory, byhand.LeastMemory>>20, least>>20)}
	}
	return nil
}

// defaultMemory returns how many bytes all sessions may use without --memory: an eighth of the machine's memory, or as
// much as one session needs if that is more. Several sessions that need more than an eighth are refused.
func defaultMemory(machine int64, sessions int) (int64, error) {
	const share = 8
	least := int64(sessions) * byhand.LeastMemory
	if sessions > 1 && machine > 0 && least > machine/share {
		return 0, usageError{fmt.Errorf("--sessions %d: each needs %d MiB, together more than an eighth of this machine's "+
			"memory, %d MiB (hint: fewer sessions, or --memory %dMiB)", sessions, byhand.LeastMemory>>20,
			machine/share>>20, least>>20)}
	}
	return max(machine/share, least), nil
}

// memory reads a size of memory in bytes. It accepts GiB, which sizes of messages do not have.
func memory(text string) (int64, error) {
	const most = 1 << 20 // GiB
	if number, ok := strings.CutSuffix(text, "GiB"); ok {
		if n, err := strconv.ParseFloat(number, 64); err == nil && n > 0 && n <= most {
			return int64(n * (1 << 30)), nil
		}
	} else if n, err := part.ParseSize(text); err == nil {
		return int64(n), nil
	}
	return 0, fmt.Errorf("invalid size %q (valid: one such as 512MiB or 2GiB)", text)
}

// ranges reads ranges of addresses. A single address is a range of one.
func ranges(texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if at, alone := netip.ParseAddr(text); alone == nil && at.Zone() == "" {
			p, err = netip.PrefixFrom(at, at.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q is not a range of addresses (valid: one such as 10.0.0.0/24, fd00::/64 or 10.0.0.7)",
				text)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// token reads a token: the text itself or, after "@", the first line of a file.
func token(text string) (string, error) {
	const least, most = 8, 1 << 10 // bytes
	if file, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		line, _, _ := strings.Cut(string(b), "\n")
		text = strings.TrimSuffix(line, "\r")
	} else if text == "" {
		return "", nil
	}
	if len(text) < least || len(text) > most {
		return "", fmt.Errorf("it has %d bytes (valid: %d to %d)", len(text), least, most)
	}
	return text, nil
}

// endpoint completes an address or a name with the default port of sinks.
func endpoint(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		// It has no port: it is a name, an address, or an IPv6 address with or without brackets.
		bare := s
		if len(s) > 1 && s[0] == '[' && s[len(s)-1] == ']' {
			bare = s[1 : len(s)-1]
		}
		if host, port, err = net.SplitHostPort(net.JoinHostPort(bare, strconv.Itoa(byhand.Port))); err != nil {
			return "", fmt.Errorf("invalid address %q (valid: values such as 10.0.0.2, 10.0.0.2:7000 or [fd00::2]:7000)", s)
		}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q: invalid port %q (valid: 0 to 65535)", s, port)
	}
	return net.JoinHostPort(host, port), nil
}

// onCPUs checks that this process may run on all of these CPUs.
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
			return usageError{fmt.Errorf("--cpu: invalid CPU %d (valid: %v)", cpu, may)}
		}
	}
	return nil
}
