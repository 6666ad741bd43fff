// Command admin enforces AdminNetworkPolicy and NetworkPolicy on a node of a test cluster. Its arguments are the name
// of the node and the path of a kubeconfig:
//
//	admin NODE KUBECONFIG
//
// It is the controller of kube-network-policies, the reference implementation of SIG Network: the kernel queues the
// first packet of each connection (NFQUEUE), and the controller decides by the policies of the cluster whether it
// passes.
//
// The controller also loads rules of nftables that queue packets. They need CONFIG_NFT_QUEUE of the kernel, which a
// machine may lack. Package testkube loads rules of iptables that queue these packets. So the library of nftables is
// replaced by one that loads nothing (folder nftables).
//
// It is a module of its own, so that nothing of Kubernetes is among what nettoll depends on. Package testkube builds
// and starts it.
package main
