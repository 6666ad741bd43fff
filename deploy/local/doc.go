// Package local is the deployment in namespaces of this machine. A host is a PID 1 in its own mount, PID, UTS, IPC and
// network namespaces, with an agent below it. None of this is visible outside, and nothing is left when this process
// ends, however it ends.
package local
