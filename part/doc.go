// Package part holds what parts of every kind have in common: a name, and parameters with the values they can have. The
// kinds are in network, runtime, workload and driver; what they are made of is in the folders below those.
package part
