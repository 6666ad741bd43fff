// Package runtime holds the kind of part that makes containers: it turns the containers of a host into steps of a plan,
// which is applied before that of the network. Each folder below is one runtime.
package runtime
