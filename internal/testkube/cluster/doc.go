// Command cluster is every program of a Kubernetes cluster in one: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubelet, kube-proxy and kubectl. Its name, or its first argument, says which one: cluster kubectl get
// nodes. Package testkube builds and starts it.
//
// It is a module of its own, so that nothing of Kubernetes is among what nettoll depends on. Kubernetes 1.35 is the last
// release whose kubelet works with containerd 1.x, which Debian 12 has.
package main
