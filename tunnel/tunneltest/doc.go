// Package tunneltest holds the conformance suite of tunnels.
package tunneltest
