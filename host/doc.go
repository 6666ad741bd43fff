// Package host holds layer 3: what is done to a container host. A [Plan] is pure data, a list of
// steps that can be printed, sent as JSON and compared; a host applies a plan, verifies that the
// kernel still agrees with it, undoes it, and starts the workers that drive traffic in it.
//
// Only a [Kernel], which lives in the agent of a host (host/agent), is ever touched by a step. How a host comes to be
// is a matter of its deployment (package deploy).
//
// # Undoing from data
//
// A step removes what it has applied from its own fields and from what it has kept ([Kernel.Keep]), which is JSON.
// So another process can undo a [Stack] that this one has applied ([Stack.MarshalJSON], [Decoder.Stack]). Nearly
// everything that steps make ends with the namespaces of the host. What does not ([Outliving]) is noted in a
// [Journal] before it is made; package host/journal keeps that.
//
// # Namespace references
//
// Steps name network namespaces by a string (see [Kernel]):
//
//	""       the host's own
//	"NAME"   a container's, made by a [Namespace] step; it stands at /run/netns/NAME
//	"@NAME"  an inherited file, passed to the host as "netns:NAME"
package host
