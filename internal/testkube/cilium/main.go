package main

import (
	"fmt"
	"os"
	"path/filepath"

	agent "github.com/cilium/cilium/daemon/cmd"
	"github.com/cilium/cilium/pkg/hive"
	plugin "github.com/cilium/cilium/plugins/cilium-cni/cmd"
)

func main() {
	if filepath.Base(os.Args[0]) == "cilium-cni" {
		plugin.PluginMain()
		return
	}
	if len(os.Args) < 2 || os.Args[1] != "agent" {
		fmt.Fprintln(os.Stderr, "usage: cilium agent [FLAG...] (or, by the name cilium-cni, the CNI plugin)")
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	agent.Execute(agent.NewAgentCmd(func() *hive.Hive { return hive.New(agent.Agent) }))
}
