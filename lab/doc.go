// Package lab keeps live labs: a registry of them, the process that owns each, and the requests that it answers.
//
// Every lab has a directory below the user's runtime directory. Its owner holds the lock of a file there for as long as
// it lives. So the directory of a killed owner can be distinguished from that of a live lab. The kernel ends the hosts
// with their owner. The owner answers at a socket in that directory, over the protocol that agents use.
//
// The owner starts commands inside a lab and receives their standard files from the client. It does so because an
// unprivileged user's hosts are in a user namespace, which a program with several threads, such as any Go program,
// cannot enter (setns(2)).
package lab
