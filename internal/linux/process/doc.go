// Package process starts processes that do not outlive their parent, in namespaces and on CPUs of their
// own, is PID 1 of such namespaces, and passes open files on by name.
package process
