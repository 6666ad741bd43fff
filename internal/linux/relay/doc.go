// Package relay gives TAP devices a carrier: a process moves frames between each of them and another one, of its own,
// in its own network namespace. This is what a virtual machine monitor, or a network stack in user space, does with a
// TAP device of a container.
package relay
