// Package local is the deployment in namespaces of this machine. A host is a PID 1 in mount, PID, UTS, IPC and network
// namespaces of its own, and an agent below it. Nothing of them is seen outside, and nothing is left when this process
// ends, however it does.
package local
