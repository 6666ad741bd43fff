package catalogue

import (
	"maps"
	"slices"
	"sync"

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
	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/ipsec"
	"github.com/nettoll/nettoll/encryption/macsec"
	"github.com/nettoll/nettoll/encryption/openvpn"
	"github.com/nettoll/nettoll/encryption/tinc"
	"github.com/nettoll/nettoll/encryption/wireguard"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	filterebpf "github.com/nettoll/nettoll/filter/ebpf"
	"github.com/nettoll/nettoll/filter/ipset"
	"github.com/nettoll/nettoll/filter/iptables"
	"github.com/nettoll/nettoll/filter/nftables"
	filterovs "github.com/nettoll/nettoll/filter/ovs"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/cni"
	"github.com/nettoll/nettoll/network/ebpf"
	hostnetwork "github.com/nettoll/nettoll/network/host"
	"github.com/nettoll/nettoll/network/ipvlan"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/overlay"
	"github.com/nettoll/nettoll/network/ovs"
	"github.com/nettoll/nettoll/network/passthrough"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/pod"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/probe/softirq"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/containerd"
	"github.com/nettoll/nettoll/runtime/docker"
	"github.com/nettoll/nettoll/runtime/lxc"
	"github.com/nettoll/nettoll/runtime/netns"
	"github.com/nettoll/nettoll/runtime/oci"
	"github.com/nettoll/nettoll/runtime/podman"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/tunnel"
	"github.com/nettoll/nettoll/tunnel/geneve"
	"github.com/nettoll/nettoll/tunnel/gre"
	"github.com/nettoll/nettoll/tunnel/ipip"
	"github.com/nettoll/nettoll/tunnel/vxlan"
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
	Kinds     stack.Kinds // of which a stack has a part each, in the order of ids
	Cluster   stack.Kinds // the same of stacks on a Kubernetes cluster
	Workloads []workload.Workload
	Drivers   []driver.Driver
	Probes    []probe.Probe
}

// New returns the catalogue.
func New() Catalogue {
	c := Catalogue{
		Kinds: stack.Kinds{
			network.Kind{
				hostnetwork.Network{},
				bridge.Network{},
				routed.Network{},
				nat.Network{},
				macvlan.Network{},
				ipvlan.Network{},
				passthrough.Network{},
				overlay.Network{},
				ovs.Network{},
				ebpf.Network{},
				cni.Network{},
			},
			filter.Kind{
				iptables.Filter{},
				ipset.Filter{},
				nftables.Filter{},
				filterovs.Filter{},
				filterebpf.Filter{},
			},
			tunnel.Kind{
				ipip.Tunnel{},
				gre.Tunnel{},
				vxlan.Tunnel{},
				geneve.Tunnel{},
			},
			encryption.Kind{
				wireguard.Encryption{},
				ipsec.Encryption{},
				openvpn.Encryption{},
				tinc.Encryption{},
				macsec.Encryption{},
			},
			runtime.Kind{
				netns.Runtime{},
				oci.Runtime{},
				lxc.Runtime{},
				docker.Runtime{},
				podman.Runtime{},
				containerd.Runtime{},
			},
		},
		Cluster: pod.Kinds(),
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
		Probes: []probe.Probe{
			softirq.Probe{},
		},
	}
	return c.informed()
}

// Steps returns the kinds of steps that an agent can apply.
func (c Catalogue) Steps() map[string]func() host.Step {
	all := host.Steps()
	for _, kind := range c.Kinds {
		if own, ok := kind.(host.Stepper); ok {
			maps.Copy(all, own.Steps())
		}
	}
	return all
}

// Daemons returns the roles of this program that steps need.
func (c Catalogue) Daemons() map[string]host.Daemon {
	all := host.Daemons()
	for _, kind := range c.Kinds {
		for _, p := range kind.Parts() {
			if own, ok := p.Value.(host.Daemoner); ok {
				maps.Copy(all, own.Daemons())
			}
		}
	}
	return all
}

// informed returns the catalogue with workloads that know all of its metrics, if they report any. They are put together
// when somebody asks for them: a worker starts in less time than that takes.
func (c Catalogue) informed() Catalogue {
	declared := sync.OnceValue(func() measure.Vocabulary {
		all, _ := c.Metrics() // see Parts
		return all
	})
	of := c
	of.Workloads = slices.Clone(c.Workloads)
	for i, w := range of.Workloads {
		if r, ok := w.(workload.Reporter); ok {
			of.Workloads[i] = r.Reporting(declared)
		}
	}
	return of
}

// Parts returns what an experiment can choose from.
func (c Catalogue) Parts() experiment.Parts {
	c = c.informed() // of kinds that were added, too
	metrics, err := c.Metrics()
	if err != nil {
		panic(err) // the parts that are listed above contradict each other: TestMetrics finds that
	}
	return experiment.Parts{
		Kinds: c.Kinds, Cluster: c.Cluster, Workloads: c.Workloads, Drivers: c.Drivers, Probes: c.Probes, Metrics: metrics,
	}
}

// Metrics returns what the parts declare. It fails if one name has two meanings.
func (c Catalogue) Metrics() (measure.Vocabulary, error) {
	list := slices.Concat(workload.Metrics(), traffic.Metrics())
	for _, w := range c.Workloads {
		list = append(list, w.Describe().Declares...)
	}
	for _, kind := range slices.Concat(c.Kinds, c.Cluster) {
		if d, ok := kind.(measure.Declarer); ok {
			list = append(list, d.Metrics()...)
		}
	}
	for _, p := range c.Probes {
		list = append(list, p.Describe().Metrics...)
	}
	return measure.NewVocabulary(list...)
}
