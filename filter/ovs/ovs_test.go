package ovs_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/filter/filtertest"
	"github.com/nettoll/nettoll/filter/ovs"
	"github.com/nettoll/nettoll/host"
	driver "github.com/nettoll/nettoll/internal/linux/ovs"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	switched "github.com/nettoll/nettoll/network/ovs"
	"github.com/nettoll/nettoll/part"
)

func TestConformance(t *testing.T) {
	subject := filtertest.Subject{
		Filter: ovs.Filter{}, State: state,
		Revoke: func(k *host.Kernel, _ filter.Rule) error {
			return ofctl(k, "del-flows", fmt.Sprintf("cookie=%#x/-1", driver.CookieAdded))
		},
		Tampers: []filtertest.Tamper{
			{Text: "delete a flow of a pair", Do: func(k *host.Kernel, s filter.Site) error {
				r := s.List.Allowed[0]
				return ofctl(k, "del-flows", fmt.Sprintf("udp,nw_src=%s,nw_dst=%s", r.Source, r.Sink))
			}},
			{Text: "delete the flow that drops", Do: func(k *host.Kernel, _ filter.Site) error {
				return ofctl(k, "--strict", "del-flows", "table=0,priority=1")
			}},
			{Text: "let containers reach the host", Do: func(k *host.Kernel, s filter.Site) error {
				gateway, _ := network.Gateway(s.Host)
				return ofctl(k, "add-flow",
					fmt.Sprintf("cookie=%#x,table=0,priority=901,ip,nw_dst=%s,actions=goto_table:10", driver.CookieAllowed,
						gateway.Addr()))
			}},
			{Text: "match no fragments", Do: func(k *host.Kernel, _ filter.Site) error {
				return ofctl(k, "set-frags", "normal")
			}},
			{Text: "let everything pass", Do: func(k *host.Kernel, _ filter.Site) error { // the last, for it stays
				return ofctl(k, "add-flow", "table=0,priority=60000,actions=NORMAL")
			}},
		},
	}
	if testnet.Guest() { // which has the kernel's datapath, and is slow
		if err := driver.KernelDatapath(); err != nil {
			t.Fatal(err)
		}
		subject.Filter = reassembling{}
		on := filtertest.On{Network: switched.Network{}, Params: map[string]string{"datapath": "kernel"}}
		filtertest.Check(t, subject, on, map[string]string{"stateful": "true", "rules": "3"}, "packets, ipv4 and ipv6",
			"change")
		filtertest.Check(t, subject, on, map[string]string{"antispoof": "true"}, "spoofing")
		return
	}
	explicit := map[string]string{"flows": "explicit"}
	filtertest.Conformance(t, subject, []filtertest.On{
		{Network: switched.Network{}, Floods: true}, {Network: switched.Network{}, Params: explicit, Hosts: 2},
	}, map[string]string{"rules": "3", "fillers": "after"})
	stateful, userspace := map[string]string{"stateful": "true", "rules": "3"}, map[string]string{"datapath": "userspace"}
	filtertest.Conformance(t, subject, []filtertest.On{
		{Network: switched.Network{}, Params: userspace, Hosts: 2, Floods: true},
	}, stateful)
	bound := subject
	bound.Tampers = slices.Insert(slices.Clone(subject.Tampers), 2,
		filtertest.Tamper{Text: "silence a port", Do: func(k *host.Kernel, _ filter.Site) error {
			return ofctl(k, "del-flows", "table=0,in_port=1")
		}},
		filtertest.Tamper{Text: "let advertisements pass", Do: func(k *host.Kernel, _ filter.Site) error {
			return ofctl(k, "del-flows", "table=1,icmp6")
		}},
		filtertest.Tamper{Text: "let frames for others pass", Do: func(k *host.Kernel, _ filter.Site) error {
			return ofctl(k, "--strict", "del-flows", "table=6,priority=100,ip")
		}},
		filtertest.Tamper{Text: "flood what is for a container", Do: func(k *host.Kernel, s filter.Site) error {
			return ofctl(k, "add-flow", fmt.Sprintf("cookie=%#x,table=6,priority=200,ip,dl_dst=%s,nw_dst=%s,actions=FLOOD",
				driver.CookieBase, s.Containers[0].MAC, s.Containers[0].IPv4))
		}})
	for _, params := range []map[string]string{{"antispoof": "true"}, {"antispoof": "true", "stateful": "true"}} {
		filtertest.Conformance(t, bound, []filtertest.On{
			{Network: switched.Network{}}, {Network: switched.Network{}, Params: explicit, Hosts: 2},
		}, params)
	}
}

// reassembling is the filter with connection tracking as the kernel's datapath has it.
type reassembling struct{ ovs.Filter }

func (r reassembling) Describe() filter.Description {
	d := r.Filter.Describe()
	d.Fragments = func(part.Params) filter.Fragments { return filter.Reassembled }
	return d
}

// tool runs ovs-ofctl(8) on the bridge of a host.
func tool(k *host.Kernel, before []string, after ...string) (string, error) {
	dir, err := k.RunDir(driver.RunDir)
	if err != nil {
		return "", err
	}
	args := slices.Concat([]string{"-O", "OpenFlow14"}, before, []string{
		"unix:" + driver.Instance{Dir: dir}.Bridge("br0"),
	}, after)
	out, err := exec.Command("ovs-ofctl", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ovs-ofctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// ofctl changes flows: the last argument is the flow.
func ofctl(k *host.Kernel, args ...string) error {
	_, err := tool(k, args[:len(args)-1], args[len(args)-1])
	return err
}

// state lists the flows without what counts.
func state(k *host.Kernel, ns string) (string, error) {
	if ns != "" {
		return "", nil
	}
	out, err := tool(k, []string{"dump-flows"})
	if err != nil {
		return "", err
	}
	lines := slices.Collect(strings.Lines(regexp.MustCompile(`(duration|n_packets|n_bytes|xid)=[^ ,)]*,? ?`).ReplaceAllString(out, "")))
	slices.Sort(lines)
	return strings.Join(lines, ""), nil
}

// kill ends the daemon as nobody should, and waits until that is known.
func kill(t *testing.T, k *host.Kernel) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, p := range k.Programs() {
			if p.Name != driver.Daemon {
				continue
			}
			if p.Died != "" {
				return
			}
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	t.Fatal("it does not die")
}
