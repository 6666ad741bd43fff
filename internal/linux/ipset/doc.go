// Package ipset makes, changes, compares and destroys kernel sets with the program ipset. It works in the network
// namespace of the calling thread, which must be locked.
package ipset
