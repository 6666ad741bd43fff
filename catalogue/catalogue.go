package catalogue

import (
	"maps"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/driver/ditg"
	"github.com/nettoll/nettoll/driver/dnsperf"
	"github.com/nettoll/nettoll/driver/iperf3"
	"github.com/nettoll/nettoll/driver/netperf"
	"github.com/nettoll/nettoll/driver/nuttcp"
	pingdriver "github.com/nettoll/nettoll/driver/ping"
	"github.com/nettoll/nettoll/driver/redisbenchmark"
	"github.com/nettoll/nettoll/driver/sockperf"
	"github.com/nettoll/nettoll/driver/wrk"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	filterebpf "github.com/nettoll/nettoll/filter/ebpf"
	"github.com/nettoll/nettoll/filter/ipset"
	"github.com/nettoll/nettoll/filter/iptables"
	"github.com/nettoll/nettoll/filter/nftables"
	filterovs "github.com/nettoll/nettoll/filter/ovs"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ebpf"
	hostnetwork "github.com/nettoll/nettoll/network/host"
	"github.com/nettoll/nettoll/network/ipvlan"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/ovs"
	"github.com/nettoll/nettoll/network/passthrough"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/netns"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/burst"
	"github.com/nettoll/nettoll/workload/command"
	"github.com/nettoll/nettoll/workload/connections"
	"github.com/nettoll/nettoll/workload/dns"
	"github.com/nettoll/nettoll/workload/http"
	"github.com/nettoll/nettoll/workload/kv"
	"github.com/nettoll/nettoll/workload/ping"
	"github.com/nettoll/nettoll/workload/quake3"
	"github.com/nettoll/nettoll/workload/tbench"
	"github.com/nettoll/nettoll/workload/tcpcrr"
	"github.com/nettoll/nettoll/workload/tcprr"
	"github.com/nettoll/nettoll/workload/tcpstream"
	"github.com/nettoll/nettoll/workload/udprate"
	"github.com/nettoll/nettoll/workload/udprr"
	"github.com/nettoll/nettoll/workload/underload"
	"github.com/nettoll/nettoll/workload/video"
)

// Catalogue is what this nettoll is made of. A part is one line here.
type Catalogue struct {
	Networks  []network.Network
	Filters   []filter.Filter
	Runtimes  []runtime.Runtime
	Workloads []workload.Workload
	Drivers   []driver.Driver
	Steps     map[string]func() host.Step // the kinds of steps that an agent can apply
}

// New returns the catalogue.
func New() Catalogue {
	c := Catalogue{
		Networks: []network.Network{
			hostnetwork.Network{},
			bridge.Network{},
			routed.Network{},
			nat.Network{},
			macvlan.Network{},
			ipvlan.Network{},
			passthrough.Network{},
			ovs.Network{},
			ebpf.Network{},
		},
		Filters: []filter.Filter{
			iptables.Filter{},
			ipset.Filter{},
			nftables.Filter{},
			filterovs.Filter{},
			filterebpf.Filter{},
		},
		Runtimes: []runtime.Runtime{
			netns.Runtime{},
		},
		Workloads: []workload.Workload{
			udprr.Workload{},
			ping.Workload{},
			udprate.Workload{},
			tcpstream.Workload{},
			tcprr.Workload{},
			tcpcrr.Workload{},
			underload.Workload{},
			burst.Workload{},
			connections.Workload{},
			quake3.Workload{},
			video.Workload{},
			kv.Workload{},
			http.Workload{},
			dns.Workload{},
			tbench.Workload{},
			command.Workload{},
		},
		Drivers: []driver.Driver{
			sockperf.Driver{},
			iperf3.Driver{},
			netperf.Driver{},
			nuttcp.Driver{},
			pingdriver.Driver{},
			ditg.Driver{},
			dnsperf.Driver{},
			redisbenchmark.Driver{},
			wrk.Driver{},
		},
		Steps: host.Steps(),
	}
	for _, n := range c.Networks {
		if own, ok := n.(network.Stepper); ok {
			maps.Copy(c.Steps, own.Steps())
		}
	}
	for _, f := range c.Filters {
		maps.Copy(c.Steps, f.Describe().Steps)
	}
	return c
}

// Parts returns what an experiment can choose from.
func (c Catalogue) Parts() experiment.Parts {
	return experiment.Parts{Networks: c.Networks, Filters: c.Filters, Runtimes: c.Runtimes, Workloads: c.Workloads, Drivers: c.Drivers}
}
