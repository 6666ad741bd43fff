// Package ethtool reads and switches the offloads of links, as ethtool(8) does by -k and -K. What it does, it does in
// the network namespace of the calling thread.
package ethtool
