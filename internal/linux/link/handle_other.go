//go:build !linux

package link

import (
	"net"
	"net/netip"
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

func unsupported() error {
	return &linux.UnsupportedError{What: "open rtnetlink socket", Missing: "Linux", Hint: "rtnetlink exists only there"}
}

// A Handle cannot be opened here.
type Handle struct{}

// Open is not supported here.
func Open() (*Handle, error) { return nil, unsupported() }

// OpenTAP is not supported here.
func OpenTAP(string, TAP) (int, error) { return 0, unsupported() }

// Close does nothing.
func (*Handle) Close() {}

// AddBridge is not supported here.
func (*Handle) AddBridge(Bridge) (int, error) { return 0, unsupported() }

// AddVeth is not supported here.
func (*Handle) AddVeth(Veth) (int, error) { return 0, unsupported() }

// AddMacvlan is not supported here.
func (*Handle) AddMacvlan(Macvlan) error { return unsupported() }

// SetMacvlanMode is not supported here.
func (*Handle) SetMacvlanMode(int, string) error { return unsupported() }

// AddTunnel is not supported here.
func (*Handle) AddTunnel(Tunnel) (int, error) { return 0, unsupported() }

// Tunnel is not supported here.
func (*Handle) Tunnel(string) (Tunnel, error) { return Tunnel{}, unsupported() }

// SetNoARP is not supported here.
func (*Handle) SetNoARP(int) error { return unsupported() }

// AddIPVlan is not supported here.
func (*Handle) AddIPVlan(IPVlan) error { return unsupported() }

// SetIPVlanMode is not supported here.
func (*Handle) SetIPVlanMode(int, string) error { return unsupported() }

// CheckKind is not supported here.
func CheckKind(string, string) error { return unsupported() }

// Move is not supported here.
func (*Handle) Move(int, *os.File) error { return unsupported() }

// SetName is not supported here.
func (*Handle) SetName(int, string) error { return unsupported() }

// Rename is not supported here.
func (*Handle) Rename(int, string, ...netip.Addr) error { return unsupported() }

// InUse is not supported here.
func (*Handle) InUse(string) (string, error) { return "", unsupported() }

// Spare is not supported here.
func (*Handle) Spare(string) error { return unsupported() }

// Delete is not supported here.
func (*Handle) Delete(int) error { return unsupported() }

// ByName is not supported here.
func (*Handle) ByName(string) (Link, error) { return Link{}, unsupported() }

// ByIndex is not supported here.
func (*Handle) ByIndex(int) (Link, error) { return Link{}, unsupported() }

// List is not supported here.
func (*Handle) List() ([]Link, error) { return nil, unsupported() }

// SetUp is not supported here.
func (*Handle) SetUp(int, bool) error { return unsupported() }

// SetMTU is not supported here.
func (*Handle) SetMTU(_, _ int) error { return unsupported() }

// SetMAC is not supported here.
func (*Handle) SetMAC(int, net.HardwareAddr) error { return unsupported() }

// AddAddress is not supported here.
func (*Handle) AddAddress(int, netip.Prefix) error { return unsupported() }

// DeleteAddress is not supported here.
func (*Handle) DeleteAddress(int, netip.Prefix) error { return unsupported() }

// Addresses is not supported here.
func (*Handle) Addresses(int) ([]netip.Prefix, error) { return nil, unsupported() }

// Local is not supported here.
func (*Handle) Local(netip.Addr) (bool, error) { return false, unsupported() }

// AddRoute is not supported here.
func (*Handle) AddRoute(Route) error { return unsupported() }

// DeleteRoute is not supported here.
func (*Handle) DeleteRoute(Route) error { return unsupported() }

// SetNeighbour is not supported here.
func (*Handle) SetNeighbour(Neighbour) error { return unsupported() }

// DeleteNeighbour is not supported here.
func (*Handle) DeleteNeighbour(Neighbour) error { return unsupported() }

// StaticNeighbour is not supported here.
func StaticNeighbour(int, netip.Addr, bool) (Neighbour, error) { return Neighbour{}, unsupported() }

// Neighbours is not supported here.
func (*Handle) Neighbours(netip.Addr) ([]Neighbour, error) { return nil, unsupported() }

// Learned is not supported here.
func (*Handle) Learned() ([]Neighbour, error) { return nil, unsupported() }

// Stations is not supported here.
func (*Handle) Stations(int) ([]net.HardwareAddr, error) { return nil, unsupported() }

// Routes is not supported here.
func (*Handle) Routes(netip.Prefix) ([]Route, error) { return nil, unsupported() }

// Traffic is not supported here.
func (*Handle) Traffic() ([]Traffic, error) { return nil, unsupported() }

// RouteMTUs is not supported here.
func (*Handle) RouteMTUs() (map[int]int, error) { return nil, unsupported() }

// Next is not supported here.
func (*Handle) Next(netip.Addr, netip.Addr) (Next, error) { return Next{}, unsupported() }

// EncapRoutes is not supported here.
func (*Handle) EncapRoutes(netip.Prefix) ([]Route, error) { return nil, unsupported() }

// SetMaster is not supported here.
func (*Handle) SetMaster(int, int) error { return unsupported() }

// AddVXLAN is not supported here.
func (*Handle) AddVXLAN(VXLAN) (int, error) { return 0, unsupported() }

// VXLAN is not supported here.
func (*Handle) VXLAN(string) (VXLAN, error) { return VXLAN{}, unsupported() }

// AddGeneve is not supported here.
func (*Handle) AddGeneve(Geneve) (int, error) { return 0, unsupported() }

// Geneve is not supported here.
func (*Handle) Geneve(string) (Geneve, error) { return Geneve{}, unsupported() }

// AddFDBEntry is not supported here.
func (*Handle) AddFDBEntry(FDBEntry) error { return unsupported() }

// DeleteFDBEntry is not supported here.
func (*Handle) DeleteFDBEntry(FDBEntry) error { return unsupported() }

// FDB is not supported here.
func (*Handle) FDB(int) ([]FDBEntry, error) { return nil, unsupported() }
