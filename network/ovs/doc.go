// Package ovs is the network "ovs": an Open vSwitch on each host, whose ports are the containers' veths. An instance of
// its own runs in the host's namespaces: ovsdb-server and ovs-vswitchd, which forward in the kernel where
// it has the module, and in userspace elsewhere. The bridge's own link has the containers' gateway; across hosts the
// hosts forward, as with the network "bridge".
//
// Packets meet table 0, in which filters put their flows, and then table 10, which forwards:
//
//   - flows=normal: one flow; the switch learns MAC addresses and floods as any other.
//   - flows=explicit: for each container flows by its addresses of both families, by which it is also asked for (ARP,
//     neighbour solicitations): nothing is flooded. Packets for nobody here go to the host.
//
// In userspace packets leave and reach the links by packet sockets, beside which the host's own network stack would
// receive them as well. Rules of nftables at the ingress of each port keep it out: else it answers for the gateway, and
// forwards past the switch. They also count, so that a lab shows that the switch alone received its packets. TCP
// travels in large segments whose checksums nobody makes until they leave the machine (userspace-tso-enable): without
// it TCP does not work over veth unless the containers make checksums and small segments themselves, which was tried to
// be five to ten times slower. UDP_SEGMENT has no such way, so that the kernel cuts it in the container.
//
// The daemon looks through what its datapath remembers every 5 s instead of twice a second (max-revalidator; when flows
// or addresses change at once all the same): when nothing is sent both programs use 0.02 % of a core, and used 0.1 %
// (3.1 in userspace, two containers, 10 s after they were joined). Both settings are in the implementation's name in
// records.
package ovs
