// Package runtime holds the kind of part that makes containers. It turns the containers of a host into steps of a plan,
// before the steps of the network. Each folder below is one runtime.
package runtime
