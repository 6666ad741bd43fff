// Package multus has a go.mod that names the CNI plugin multus, which package testkube builds.
package multus
