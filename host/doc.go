// Package host holds layer 3: changes to a container host. A [Plan] is pure data: a list of steps that can be printed,
// sent as JSON and compared. A host applies a plan, verifies that the kernel still matches it, and undoes it. It also
// starts the workers that drive traffic in the host.
//
// Steps change only a [Kernel], which is in the agent of a host (host/agent). Deployments start hosts (package deploy).
//
// # Undoing from data
//
// To remove what it has applied, a step needs only its own fields and what it has kept ([Kernel.Keep]), which is JSON.
// So another process can undo a [Stack] that this one has applied ([Stack.MarshalJSON], [Decoder.Stack]). Nearly
// everything that steps make ends with the namespaces of the host. A step that makes something else ([Outliving]) is
// noted in a [Journal] first; package host/journal keeps that.
//
// # Namespace references
//
// Steps name network namespaces by a string (see [Kernel]):
//
//	""       the host's own
//	"NAME"   a container's, made by a [Namespace] step; it is at /run/netns/NAME
//	"@NAME"  an inherited file, passed to the host as "netns:NAME"
package host
