// Package userns reports what this process may do in its user namespace, what a user namespace does not grant, and what
// prevents making one. [process.Options.User] starts a process in a new one.
//
// [process.Options.User]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux/process#Options
package userns
