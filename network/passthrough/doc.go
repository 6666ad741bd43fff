// Package passthrough is the network "passthrough": each container has a network card of its own, moved into it: LXC's
// "phys", the "real device" of Lezcano 2007, the multi-NIC containers of Alibaba. Nothing of the host is between the
// container and the wire.
//
//	src0          src1                      snk0
//	eth0          eth0     198.18.1.1/16    eth0      198.18.2.0/16
//	  └──────┐      └──────┐                  │
//	 up0     │     up0     │                  │
//	  └──── underlay ──────┴──────────────────┘
//
// On local hosts the card is one end of a veth whose other end is a port of the underlay's switch; it appears on the
// host, and is really moved into the container. A lab of one host has a switch of its own, sw0, in the place of the
// underlay.
//
// With nic=NAME the card is one of this machine's, and nic=NAME+NAME gives several, one for each container in the
// order of hosts and containers: for one pair the first is the source's, the second the sink's, and something
// outside has to join them. This alone of all networks reaches out of the lab. A NIC that is the machine's only way
// out, that has addresses, that is part of something or that is virtual is refused before anything is built; a
// virtual one would be lost with the lab if nettoll was killed, a real one the kernel gives back to the machine's
// first network namespace. It keeps its name while it is away, so that it has it then. When the lab is removed it
// gets back its MTU and is set up if it was. After a SIGKILL it is down and has the MTU of the lab until the next
// run that takes a NIC begins, or until `nettoll clean`: what it had is in the journal of the run (package
// host/journal), which is written before the NIC is moved.
//
// How long it takes to plug a card into a container is measured on the last container of each host (plug_time).
package passthrough
