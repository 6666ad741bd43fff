package runtime

import "github.com/nettoll/nettoll/measure"

// Names of the metrics of containers with workers. Each lab has them once a generation.
const (
	Memory    = "container_memory"
	CPU       = "cpu_containers"
	Throttled = "container_throttled"
)

// Metrics declares what containers use.
func (Kind) Metrics() []measure.Metric {
	return []measure.Metric{
		{
			Name: Memory, Unit: measure.UnitByte, Better: measure.LowerBetter, Kind: measure.KindMemory, Order: 726,
			Label:   "per container",
			Summary: "memory of a container's cgroup after the last trial of a generation; of several the largest",
			Note: "“per container” is the memory of a container's cgroup after the trials: of its processes, of the kernel " +
				"for them, and of files that they were the first to read.",
		},
		{
			Name: CPU, Unit: measure.UnitCores, Better: measure.LowerBetter, Kind: measure.KindCPU, Order: 727,
			Label:   "containers",
			Summary: "cores that the containers of a lab keep busy, by their cgroups: CPU time per time of trials",
			Note: "“containers” is the CPU time of all containers by their cgroups, per time of trials; what they use between " +
				"trials counts, too.",
		},
		{
			Name: Throttled, Unit: measure.UnitShare, Better: measure.LowerBetter, Kind: measure.KindShare, Order: 728,
			Label:   "throttled",
			Summary: "share of the periods of 100 ms in which containers ran and their limit of CPU time stopped them",
			Note: "“throttled” is the share of periods of 100 ms in which containers ran and their limit of CPU time stopped " +
				"them.",
		},
	}
}
