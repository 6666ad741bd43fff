package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// A program gets the name that it was called by and its arguments from os.Args, and returns an exit status.
type program struct {
	name string
	run  func() int
}

func programs() []program {
	return []program{
		{"etcd", func() int { etcdmain.Main(os.Args); return 0 }},
		{"kube-apiserver", daemon(apiserver.NewAPIServerCommand)},
		{"kube-controller-manager", daemon(controllers.NewControllerManagerCommand)},
		{"kube-proxy", daemon(proxy.NewProxyCommand)},
		{"kube-scheduler", daemon(func() *cobra.Command { return scheduler.NewSchedulerCommand() })},
		// Its command sets up the handler of signals itself, which must happen only once.
		{"kubelet", daemon(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) })},
		{"kubectl", func() int {
			if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		}},
	}
}

func daemon(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

func main() {
	all := programs()
	// A link to the binary may have the name of a program.
	for skip := 0; skip < min(2, len(os.Args)); skip++ {
		name := filepath.Base(os.Args[skip])
		if i := slices.IndexFunc(all, func(p program) bool { return p.name == name }); i >= 0 {
			os.Args = os.Args[skip:]
			os.Exit(all[i].run())
		}
	}
	var names []string
	for _, p := range all {
		names = append(names, p.name)
	}
	fmt.Fprintf(os.Stderr, "usage: cluster PROGRAM ARGUMENT... (programs: %s)\n", strings.Join(names, ", "))
	os.Exit(2)
}
