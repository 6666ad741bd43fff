// Command truth says which packets NetworkPolicies allow, for tests. It reads a question from its standard input, as
// JSON, and writes the answers to its standard output:
//
//	{"policies": [NetworkPolicy, …], "pods": [{"namespace": …, "labels": {…}, "ip": …}, …],
//	 "ports": [{"protocol": "UDP", "port": 30000}, …]}
//
// An answer is a list by source, sink and port, in the order of the question: true if the packet is allowed.
//
// It is the engine of Cyclonus, which derives the truth tables of its tests for network plugins. SIG Network develops it
// further in its repository network-policy-api. It shares nothing with nettoll but the objects.
//
// It is a module of its own, so that nothing of Kubernetes is among what nettoll depends on.
package main
