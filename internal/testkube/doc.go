// Package testkube starts a real Kubernetes cluster for tests: etcd, an API server, a controller manager, a scheduler
// and nodes with kubelet and containerd, which run pods. [Build] makes the programs from the Go module proxy; Debian
// has the rest.
//
// Every machine of a cluster is a PID 1 in mount, PID, UTS, IPC and network namespaces of its own: the control plane
// is one, and so is every node, which has cgroups of its own, too. The kernel kills each PID 1 with the process that
// started the cluster, and all of the machine with its PID 1. Control groups, and the directory of the cluster with
// its logs, outlive that; the next [Start] removes them. The machine's own network, files and settings are not
// changed.
//
//	control   198.18.0.1, fd00:198:18::1      the underlay, a bridge, is here
//	n1        198.18.0.11, fd00:198:18::b     pods: 10.244.1.0/24, fd00:10:244:1::/64
//	n2        198.18.0.12, fd00:198:18::c     pods: 10.244.2.0/24, fd00:10:244:2::/64
//
// Pods are joined to a bridge on their node by CNI plugins, and each node has a route to the pods of every other one.
// With [Calico] as its network, each node routes to its pods instead, and enforces NetworkPolicy. [Start] then builds
// Calico's programs, too (folder policy), and its daemon is a process of each node. With [Admin], nodes also enforce
// AdminNetworkPolicy, by a daemon that [Start] builds (folder admin). With [Flannel] and [FlannelRoutes], flannel's
// daemon runs in a DaemonSet, and with [Cilium] Cilium's agent does (folder cilium). With Multus (folder multus), which
// the node calls before the plugins of any network, pods get further interfaces.
//
// Instead, [Options.Fake] asks for nodes that kwok plays (folder kwok). Thousands of them have pods without processes.
// [None] is a control plane without nodes, which looks at objects. Folder truth has a program for tests that says what
// NetworkPolicies allow; it needs no cluster.
//
// The API server listens in the network namespace of the control plane only. A client of this process reaches it by
// [Cluster.Dial], which opens a socket there (rest.Config has Dial for that), kubectl is started there
// ([Cluster.Kubectl]), and for a person's own kubectl [Cluster.Relay] listens on a loopback port of the machine.
package testkube
