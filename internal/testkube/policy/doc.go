// Command policy is the programs of a network that enforces NetworkPolicy, in one: Calico's Felix, which turns policies
// into iptables rules, IP sets and routes on its node, and Calico's CNI plugin. Its name, or its first argument, says
// which one:
//
//	policy felix CONFIG KUBECONFIG    with the paths of both files
//	calico                            the plugin, as CNI runs it
//
// It is a module of its own, so that nothing of Calico is among what nettoll depends on. Package testkube builds and
// starts it.
package main
