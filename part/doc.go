// Package part holds what parts of every kind have in common: a name, and parameters with their valid values. Packages
// such as network, runtime, workload and driver define the kinds. The folders below those packages hold the parts.
package part
