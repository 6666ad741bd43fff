// Package wireguard makes WireGuard devices: those of the kernel, and those of the library golang.zx2c4.com/wireguard
// in a process of nettoll itself. That process speaks WireGuard's configuration protocol
// (https://www.wireguard.com/xplatform/#configuration-protocol) on a socket that only its parent has.
package wireguard
