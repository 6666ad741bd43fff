// Package kubernetes is the deployment in the pods of a Kubernetes cluster. A host is a node, a container is a pod, and
// a worker is a process in a pod, whose calls pass through the exec API. So no port, service account or right is needed
// beyond those of its user, and nothing is installed on the nodes but an image with this program.
//
//	nettoll ─ kubectl proxy ─ API server ─┬─ kubelet of node 1 ─ pod src0: nettoll worker
//	                                      └─ kubelet of node 2 ─ pod snk0: nettoll worker
//
// The pods of a host of a lab are an indexed Job. Another Job of the run has a pod on each node, which it chooses: the
// scouts, which tell about their nodes. If the nodes are monitored, a DaemonSet of the run has a pod on each of them
// that shares the network and the processes of the node, and reads what it counts.
//
// The first process of each pod ends when it has been left alone for a minute, and Jobs that have ended are removed by
// the cluster. So nothing is left of a run whose controller was killed, except its empty namespace.
package kubernetes
