// Package packet makes the frames and packets with which filters and labs are attacked, as bytes: those that no socket
// sends are among them.
package packet
