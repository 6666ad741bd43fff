package suite

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// networkPlugins is the fact of a run that names the network plugins of its cluster, such as "cilium:v1.19.1".
const networkPlugins = "network_plugins"

// lacks describes what a claim is about and a run does not have; "" if the run can try the claim.
func (c Claim) lacks(run *measure.Run) string {
	return cmp.Or(c.unwired(run), c.unplugged(run), c.processed(run))
}

// processed describes the parts of the kernel that a claim is about, if processes do their work in a run; "" if the run
// can try the claim. A run that has not begun may have either. Labs record who does the work as "PART (kernel)", or
// with the name of the program in place of the kernel.
func (c Claim) processed(run *measure.Run) string {
	for _, name := range c.Kernel {
		for i := range run.Cells {
			for _, who := range run.Cells[i].Implementation {
				if by, is := strings.CutPrefix(who, name+" ("); is && by != "kernel)" {
					return fmt.Sprintf("the kernel's %s (here: %s)", name, who)
				}
			}
		}
	}
	return ""
}

// unplugged describes the network plugins that a claim is about if the cluster of a run has none of them, or if it is
// not known which it has; "" if the run can try the claim. A run that has not begun may be on any cluster, and of
// several clusters the first counts.
func (c Claim) unplugged(run *measure.Run) string {
	if len(c.Plugins) == 0 || run.Facts == nil {
		return ""
	}
	found := pluginsOf(run)
	if slices.ContainsFunc(found, func(image string) bool {
		return slices.ContainsFunc(c.Plugins, func(name string) bool { return strings.HasPrefix(image, name) })
	}) {
		return ""
	}
	here := "it is not known which this one has"
	if len(found) > 0 {
		here = "this one has " + strings.Join(found, ", ")
	}
	return fmt.Sprintf("a cluster with %s (%s)", strings.Join(c.Plugins, " or "), here)
}

// pluginsOf returns the network plugins of the cluster of a run; nil if the records do not say.
func pluginsOf(run *measure.Run) (names []string) {
	switch list := run.Facts[networkPlugins].(type) {
	case []string:
		return list
	case []any: // read from a file
		for _, x := range list {
			names = append(names, fmt.Sprint(x))
		}
	}
	return names
}
