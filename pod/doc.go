// Package pod has the kinds of which stacks on a Kubernetes cluster are made, in the place of network, runtime and the
// others: a cluster makes containers and networks itself, so its parts are data, and have no steps.
package pod
