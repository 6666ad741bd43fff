// Package process starts processes that do not outlive their parent, in namespaces and on CPUs of their own. It also
// implements PID 1 of such namespaces, and passes open files by name.
package process
