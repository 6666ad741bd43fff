package network

import "github.com/nettoll/nettoll/part"

// by is the parameter of networks that a runtime can build, too.
const (
	by      = "by"
	nettoll = "nettoll"
)

// Values of the parameter: names of runtimes. LXC makes the links of its containers and leaves everything else to the
// host. Docker and Podman have rules of their own for their bridges, see [RuledBy].
const (
	ByDocker = "docker"
	ByLXC    = "lxc"
	ByPodman = "podman"
)

// By is the parameter that says who builds a network: nettoll, or a runtime of these names by its own means.
func By(runtimes ...string) part.Param {
	return part.Param{
		Name: by, Default: nettoll, Values: append([]string{nettoll}, runtimes...), Quiet: true,
		Summary: "who builds it: nettoll, or the program that makes the containers, as it does for its users",
	}
}

// BuiltBy returns the runtime that builds the network with these parameters, "" if nettoll does.
func BuiltBy(p part.Params) string {
	if p[by] == nettoll {
		return ""
	}
	return p[by]
}

// RuledBy returns the runtime that builds the bridge of a network with these parameters and by whose rules the host
// forwards, translates and filters, "" if there is none.
func RuledBy(p part.Params) string {
	if built := BuiltBy(p); built != ByLXC {
		return built
	}
	return ""
}
