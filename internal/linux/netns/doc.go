// Package netns makes and enters network namespaces. It is the only place where a thread changes its namespace.
//
// A goroutine enters a namespace on a thread of its own. If that thread cannot return, it dies with its goroutine, so
// that no other code ever runs in the wrong namespace (house rule 5).
package netns
