package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/projectcalico/calico/cni-plugin/pkg/plugin"
	"github.com/projectcalico/calico/felix/daemon"
)

// version is the release that go.mod names; both programs only print it.
const version = "v3.28"

func main() {
	if filepath.Base(os.Args[0]) == "calico" {
		plugin.Main(version)
		return
	}
	if len(os.Args) != 4 || os.Args[1] != "felix" {
		fmt.Fprintln(os.Stderr, "usage: policy felix CONFIG KUBECONFIG (or, by the name calico, the CNI plugin)")
		os.Exit(2)
	}
	// Felix takes all but the way to its datastore from its file.
	if err := os.Setenv("KUBECONFIG", os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	daemon.Run(os.Args[2], version, "", "")
}
