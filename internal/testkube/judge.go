package testkube

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testprogram"
)

// The daemon that judges the first packet of each connection by the policies of the cluster, and where a node has it.
const (
	judge        = "judge"
	judgeProgram = "/run/judge"
)

// policyAPI is the module with the kinds AdminNetworkPolicy and BaselineAdminNetworkPolicy.
const policyAPI = "sigs.k8s.io/network-policy-api"

// queueNumber is the queue of packets that the daemon reads (queue in admin/main.go).
const queueNumber = "100"

// judges is the daemon. Most of what it is built from is what the programs of Kubernetes are built from, too.
func judges() testprogram.Program {
	return testprogram.Program{
		Folder: home + "/admin", Package: ".", Cache: cache, File: "admin-", What: "kube-network-policies",
		Minutes: "five minutes", Linking: "-s -w", Version: version,
	}
}

// missingQueue returns nil, or what this machine lacks for [Admin].
func missingQueue() error {
	dir, err := pluginDir()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "ptp")); err != nil {
		return &linux.UnsupportedError{
			What: "start a Kubernetes cluster that enforces AdminNetworkPolicy", Missing: `program "ptp" of CNI`,
			Hint: "apt-get install containernetworking-plugins", Err: err,
		}
	}
	return nil
}

// prepareAdmin makes the kinds of objects that the daemon reads, with all of their fields (the experimental channel).
func (c *Cluster) prepareAdmin(ctx context.Context) error {
	source, err := moduleDir(ctx, judges().Folder, policyAPI)
	if err != nil {
		return err
	}
	for _, name := range []string{"adminnetworkpolicies", "baselineadminnetworkpolicies"} {
		file := "policy.networking.k8s.io_" + name + ".yaml"
		if err := c.define(ctx, filepath.Join(source, "config", "crd", "experimental", file)); err != nil {
			return err
		}
	}
	return nil
}

// startJudge has the kernel queue the first packet of each connection that the node forwards, and starts the daemon.
// Without the daemon no packet of a queue passes. Answers and errors about known connections pass by connection
// tracking.
func (n *Node) startJudge(ctx context.Context) error {
	for _, iptables := range []string{"iptables", "ip6tables"} {
		for _, rule := range []string{
			"-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT", "-j NFQUEUE --queue-num " + queueNumber,
		} {
			args := append([]string{iptables, "-w", "-t", "mangle", "-A", "FORWARD"}, strings.Fields(rule)...)
			if _, err := n.machine.run(ctx, args...); err != nil {
				return err
			}
		}
	}
	return n.machine.daemon(ctx, judge, judgeProgram, n.Name(), inside+"/"+judge+".kubeconfig")
}

// waitForJudge returns when the daemon reads its queue, which it does as soon as it knows the policies.
func (n *Node) waitForJudge(ctx context.Context) error {
	m := n.machine
	return n.cluster.until(ctx, "the judge on "+m.name, func() error {
		if err := m.alive(ctx, judge); err != nil {
			return final{err}
		}
		queues, err := m.run(ctx, "cat", "/proc/net/netfilter/nfnetlink_queue")
		if err != nil {
			return err
		}
		for line := range strings.Lines(queues) {
			if fields := strings.Fields(line); len(fields) > 0 && fields[0] == queueNumber {
				return nil
			}
		}
		return fmt.Errorf("no queue %s in %q", queueNumber, queues)
	})
}
