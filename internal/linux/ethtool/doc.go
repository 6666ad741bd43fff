// Package ethtool reads and switches the offloads of links, like ethtool(8) with -k and -K. It works in the network
// namespace of the calling thread.
package ethtool
