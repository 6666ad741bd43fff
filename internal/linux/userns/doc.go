// Package userns says what this process may do in its user namespace, what a user namespace does not grant, and what
// stands in the way of making one. Starting a process in a new one is [process.Options.User].
//
// [process.Options.User]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux/process#Options
package userns
