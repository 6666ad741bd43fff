// Package lab keeps labs standing so that somebody can look around in them: a registry of them, the process that owns
// each, and what is asked of it.
//
// Every lab has a directory below the user's runtime directory. Who owns the lab holds the lock of a file in it for as
// long as it lives, so that what an owner has left behind that was killed can be told from what stands; the kernel ends
// the hosts with their owner. The owner answers at a socket in that directory, over the protocol that agents speak.
//
// Commands inside of a lab are started by its owner, which is handed their standard files: an ordinary user's hosts
// stand in a user namespace, and a program with several threads, as each of Go, cannot enter one (setns(2)).
package lab
