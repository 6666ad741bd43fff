package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/nettoll/nettoll/byhand"
	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/deploy/kubernetes"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/agent"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/lab"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/worker"
)

// child runs the commands with which nettoll starts its own processes. It runs before the command line is built,
// because a worker must be ready within milliseconds. It returns false if args name none of them.
func child(
	ctx context.Context, parts catalogue.Catalogue, args []string, stdin io.Reader, stdout, stderr io.Writer,
) (int, bool) {
	if len(args) == 0 {
		return 0, false
	}
	var err error
	switch args[0] {
	case "host-init":
		return local.Init(args[1:], stderr), true
	case "agent":
		err = serveAgent(ctx, parts, args[1:], stdin, stdout)
	case "worker":
		err = serveWorker(ctx, parts, args[1:], stdin, stdout)
	case kubernetes.PodCommand:
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM) // of PID 1 the kernel ignores it otherwise
		defer stop()
		err = kubernetes.Pod(ctx)
	case kubernetes.FreshCommand:
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM) // likewise
		defer stop()
		err = kubernetes.Fresh(ctx, args[1:])
	case kubernetes.StayCommand:
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM) // likewise
		defer stop()
		err = kubernetes.Stay(ctx)
	case kubernetes.MonitorCommand:
		err = kubernetes.Monitor(ctx, stdin, unclosed{stdout})
	case kubernetes.ScoutCommand:
		err = kubernetes.Scout(ctx, stdin, unclosed{stdout})
	case host.DaemonCommand:
		err = serveDaemon(ctx, parts, args[1:], stdin, stderr)
	case byhand.SessionCommand:
		err = serveSession(ctx, parts, args[1:], stdin, stdout)
	case lab.OwnerCommand:
		err = ownLab(ctx, args[1:], stdout)
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintf(stderr, "nettoll %s: %v\n", args[0], err)
		return exitFailed, true
	}
	return exitDone, true
}

func inherited(args []string) (agent.Arguments, map[string]*os.File, error) {
	given, err := agent.Args(args)
	if err != nil {
		return given, nil, err
	}
	files, err := process.Inherited(given.Files)
	return given, files, err
}

func serveAgent(ctx context.Context, parts catalogue.Catalogue, args []string, in io.Reader, out io.Writer) error {
	given, files, err := inherited(args)
	if err != nil {
		return err
	}
	return agent.Serve(ctx, in, unclosed{out}, agent.Config{
		Name: given.Name, Steps: parts.Steps(), UpdateRule: filter.UpdateRule, Check: deploy.Answer(parts.Kinds),
		Files: files,
	})
}

func serveWorker(ctx context.Context, parts catalogue.Catalogue, args []string, in io.Reader, out io.Writer) error {
	given, err := agent.Args(args)
	if err != nil {
		return err
	}
	var files map[string]*os.File
	if given.Handed == "" {
		files, err = process.Inherited(given.Files)
	} else {
		in, out, files, err = process.Handed(given.Handed, given.Files)
	}
	if err != nil {
		return err
	}
	return protocol.Serve(ctx, in, unclosed{out}, worker.New(worker.Config{
		Workloads: parts.Workloads, Drivers: parts.Drivers, Probes: parts.Probes, Host: local.Worker(files, given.Container),
	}).Methods())
}

// serveDaemon runs a daemon of a part, whose name is the first argument.
func serveDaemon(ctx context.Context, parts catalogue.Catalogue, args []string, in io.Reader, log io.Writer) error {
	socket, ok := in.(*os.File)
	daemons := parts.Daemons()
	if len(args) == 0 || daemons[args[0]] == nil || !ok {
		return fmt.Errorf("unknown daemon %q (nettoll starts its daemons itself)", args)
	}
	control, err := net.FileConn(socket)
	if err != nil {
		return fmt.Errorf("its input is not a socket (nettoll starts its daemons itself): %w", err)
	}
	_ = socket.Close() // the connection has a copy
	return daemons[args[0]](ctx, control, args[1:], log)
}

func serveSession(ctx context.Context, parts catalogue.Catalogue, args []string, in io.Reader, out io.Writer) error {
	_, files, err := inherited(args)
	if err != nil {
		return err
	}
	return byhand.ServeSession(ctx, parts.Workloads, files, in, out)
}

// unclosed adds a Close without effect to standard output, which closes with the process.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// here is the deployment on this machine, with the journals of this user.
func here(uid int) *local.Deployment { return &local.Deployment{Journals: journals(uid)} }

// there is the deployment on the clusters of an experiment, whose stacks are of these kinds. It tells what it waits
// for.
func there(e experiment.Experiment, kinds stack.Kinds, say func(string)) deploy.Standing {
	all := []stack.Stack{e.Baseline.Parts}
	for _, s := range e.Stacks {
		all = append(all, s.Parts)
	}
	for _, choices := range e.Factors.Parts {
		for _, c := range choices {
			all = append(all, stack.Stack{c})
		}
	}
	privileged, secondary := false, []string(nil)
	for _, s := range all {
		whole, err := kinds.Complete(s)
		if err != nil {
			continue // a filter alone, which says nothing of networks
		}
		shared, params, ok := stack.PartOf[network.Sharer](whole)
		privileged = privileged || ok && shared.Shares(params)
		if a, params, ok := stack.PartOf[network.Attacher](whole); ok && a.Attached(params) != "" {
			secondary = append(secondary, a.Attached(params))
		}
	}
	slices.Sort(secondary)
	secondary = slices.Compact(secondary)
	var several kubernetes.Several
	for _, c := range e.Clusters {
		d := &kubernetes.Deployment{
			Options: kubectl.Options{Context: c.Context}, Namespace: c.Namespace,
			Image: cmp.Or(c.Image, experiment.DefaultImage), Hosts: e.MostHosts(), Say: say,
			Monitor: c.Monitor != "", Taps: c.Monitor == experiment.MonitorWire, Secondary: secondary,
		}
		d.Privileged = privileged || d.Monitor
		if len(e.Clusters) == 1 {
			return d
		}
		if say != nil {
			d.Say = func(text string) { say("cluster " + c.Name + ": " + text) }
		}
		several.Names, several.Clusters = append(several.Names, c.Name), append(several.Clusters, d)
	}
	return &several
}
