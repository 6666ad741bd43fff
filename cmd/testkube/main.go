// Command testkube starts a Kubernetes cluster to look around in, as tests have it: testkube [-nodes N | -fake N]
// [-network NAME] [-multus] [-proxy] [-nettoll PROGRAM] [-image FILE] [COMMAND...]. It runs a command, or the shell of
// the user, which reaches the cluster by kubectl, and stops the cluster when that ends. See testkube -help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/testkube"
)

func main() {
	if testkube.Again(os.Args) {
		os.Exit(testkube.Init(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Stdin, os.Stdout, os.Stderr, os.Args[1:]))
}

const help = `Starts a Kubernetes cluster in namespaces of this machine, runs COMMAND, or your shell, and stops the cluster when that
ends. It needs root, containerd, runc and CNI plugins (scripts/needs). The first start builds the programs of
Kubernetes, which takes up to ten minutes. The machine's own network is not changed: the API server is reached by a
loopback port.

Usage:
  testkube [-nodes N | -fake N] [-network NAME] [-multus] [-proxy] [-nettoll PROGRAM] [-image FILE]
           [COMMAND [ARGUMENT...]]

The command has these in its environment:
  KUBECONFIG        of the administrator; kubectl is in PATH
  TESTKUBE_DIR      the cluster's directory, with the logs of all daemons: $TESTKUBE_DIR/n1/kubelet.log

Pods can use the image %[1]s, whose entrypoint is busybox, with imagePullPolicy: Never. To look around in
a node, give a pod hostNetwork, hostPID and a privileged container.

Examples:
  testkube                                        a shell; end it to stop the cluster
  testkube kubectl get nodes -o wide
  testkube -nodes 3 -proxy
  testkube -network calico                        enforces NetworkPolicy
  testkube -network admin                         enforces AdminNetworkPolicy, too
  testkube -fake 1000                             a thousand fake nodes, to see what the control plane can do
  testkube -network flannel                       VXLAN between nodes
  testkube -network cilium                        VXLAN between nodes, and enforces NetworkPolicy by eBPF
  testkube -nettoll bin/nettoll bin/nettoll run experiment/examples/kubernetes.yaml
  in the shell:
    kubectl run a --image=%[1]s --image-pull-policy=Never -- sleep 1000000
    kubectl exec -it a -- busybox sh

Flags:
`

func run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, args []string) int {
	flags := flag.NewFlagSet("testkube", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, help, testkube.Shell)
		flags.PrintDefaults()
	}
	begun := time.Now()
	options := testkube.Options{Say: func(what string) {
		fmt.Fprintf(stderr, "testkube: %s (after %.1f s)\n", what, time.Since(begun).Seconds())
	}}
	flags.IntVar(&options.Nodes, "nodes", 0, "number of nodes, 1 to 9 (default 2)")
	flags.IntVar(&options.Fake, "fake", 0, "number of fake nodes instead, whose pods run no process; kwok is built once")
	flags.StringVar(&options.Network, "network", testkube.Bridge,
		"how pods are joined: bridge, or calico, which enforces NetworkPolicy, or admin, which also enforces "+
			"AdminNetworkPolicy, or flannel, flannel-host-gw or cilium; all but bridge are built once, in minutes")
	flags.BoolVar(&options.Multus, "multus", false,
		"give pods further interfaces by NetworkAttachmentDefinitions; Multus is built once, in minutes")
	flags.BoolVar(&options.Proxy, "proxy", false, "start kube-proxy, so that services have addresses that work")
	flags.Func("nettoll", "`PROGRAM` of the image nettoll:latest that nodes have", func(program string) error {
		options.Images = append(options.Images, testkube.Image{
			Name: "nettoll:latest", Files: map[string]string{"/nettoll": program},
		})
		_, err := os.Stat(program)
		return err
	})
	flags.Func("image", "archive `FILE` with an image that nodes have, as nettoll image -o writes it", func(archive string) error {
		options.Images = append(options.Images, testkube.Image{Archive: archive})
		_, err := os.Stat(archive)
		return err
	})
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	status, err := up(ctx, options, stdin, stdout, stderr, flags.Args())
	if err != nil {
		fmt.Fprintf(stderr, "testkube: %v\n", err)
		return 1
	}
	return status
}

// up starts a cluster, runs a command beside it, and stops the cluster.
func up(ctx context.Context, o testkube.Options, stdin io.Reader, stdout, stderr io.Writer, command []string,
) (status int, err error) {
	// An interrupt ends the start. Later it is for the command, which is in the same process group of the terminal.
	starting, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	cluster, err := testkube.Start(starting, o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	relaying, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	config, err := cluster.Relay(relaying)
	if err != nil {
		return 0, err
	}
	bin := filepath.Join(cluster.Dir(), "bin")
	if err := cluster.LinkKubectl(bin); err != nil {
		return 0, err
	}
	o.Say("the cluster is ready")
	if len(command) == 0 {
		shell := os.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		command = []string{shell}
		fmt.Fprintf(stderr, "testkube: KUBECONFIG=%s; logs are in %s; end this shell to stop the cluster\n", config,
			cluster.Dir())
	}
	// The command is found in the PATH that it has.
	path := bin + string(filepath.ListSeparator) + os.Getenv("PATH")
	if err := os.Setenv("PATH", path); err != nil {
		return 0, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+config, "TESTKUBE_DIR="+cluster.Dir())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err = <-ended:
		case <-time.After(2 * time.Second):
			_ = cmd.Process.Kill()
			err = <-ended
		}
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}
