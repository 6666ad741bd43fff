// Package tap is the module in which the CNI plugin tap is built, of a newer release of the CNI project's plugins than
// Debian's.
package tap
