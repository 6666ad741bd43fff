package machine

import (
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func root(files map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for path, text := range files {
		fs[path] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return fs
}

// laptop returns a real machine with everything that makes results scatter.
func laptop() map[string]string {
	files := map[string]string{
		"proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU @ 3 " +
			"GHz\nflags\t\t: fpu tsc\nprocessor\t: 1\nmodel name\t: Some CPU @ 3 GHz\nflags\t\t: fpu tsc",
		"proc/loadavg":                         "3.25 1.00 0.50 1/200 4242",
		cpuDir + "online":                      "0-3",
		"sys/devices/system/node/online":       "0",
		cpuDir + "intel_pstate/no_turbo":       "0",
		cpuDir + "cpu0/cpuidle/state0/name":    "POLL",
		cpuDir + "cpu0/cpuidle/state0/latency": "0",
		cpuDir + "cpu0/cpuidle/state1/name":    "C1",
		cpuDir + "cpu0/cpuidle/state1/latency": "2",
		cpuDir + "cpu0/cpuidle/state2/name":    "C6",
		cpuDir + "cpu0/cpuidle/state2/latency": "133",
		cpuDir + "vulnerabilities/meltdown":    "Mitigation: PTI",
		cpuDir + "vulnerabilities/mds": "Vulnerable: Clear CPU buffers attempted, no " +
			"microcode",
		cpuDir + "vulnerabilities/l1tf":                      "Not affected",
		"proc/sys/kernel/osrelease":                          "6.18.0",
		"proc/sys/net/ipv4/tcp_congestion_control":           "cubic",
		"proc/sys/net/ipv4/tcp_available_congestion_control": "reno cubic",
		"proc/sys/net/ipv4/tcp_allowed_congestion_control":   "reno cubic",
		"proc/sys/net/ipv4/neigh/default/gc_thresh3":         "128",
		"proc/sys/net/netfilter/nf_conntrack_max":            "262144",
		"proc/sys/kernel/pid_max":                            "4194304",
		"proc/sys/kernel/threads-max":                        "126000",
		"proc/self/limits": "Limit                     Soft Limit         " +
			"  Hard Limit           Units     \nMax processes             63000                63000                processes " +
			"\nMax open files            1024                 1048576              files     ",
		"proc/self/cgroup":                                                  "0::/user.slice/shell",
		"sys/fs/cgroup/user.slice/pids.max":                                 "500",
		"sys/fs/cgroup/user.slice/shell/pids.max":                           "max",
		"proc/sys/user/max_net_namespaces":                                  "63000",
		"proc/sys/user/max_user_namespaces":                                 "0",
		"sys/devices/system/clocksource/clocksource0/current_clocksource":   "hpet",
		"sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm",
	}
	for i, siblings := range []string{"0-1", "0-1", "2-3", "2-3"} {
		dir := cpuDir + "cpu" + string(rune('0'+i)) + "/"
		files[dir+"topology/physical_package_id"] = "0"
		files[dir+"topology/core_cpus_list"] = siblings
		files[dir+"cpufreq/scaling_governor"] = "powersave"
		files[dir+"cpufreq/scaling_driver"] = "intel_pstate"
	}
	return files
}

// lines returns findings as lines that are easy to compare.
func lines(findings []Finding) []string {
	var all []string
	for _, f := range findings {
		mark := "?"
		if f.Known {
			mark = " "
		}
		line := mark + " " + f.Name + ": " + f.Value
		if f.Advice != "" {
			line += " → " + f.Advice
		}
		all = append(all, line)
	}
	return all
}

func TestLook(t *testing.T) {
	for _, tt := range []struct {
		name string
		root map[string]string
		with Options
		want []string
	}{
		{
			"a laptop", laptop(),
			Options{
				Unlimited: "memory", LimitHelp: "mount it", NoDocker: "a socket", DockerHelp: "start it",
				Sources: []int{0, 1}, Sinks: []int{2, 3},
				Modes: map[string]float64{"user": 0.5, "softirq": 0.1, "idle": 3.3, "steal": 0},
			},
			[]string{
				"  cpu: Some CPU @ 3 GHz",
				"  virtual_machine: no",
				"  topology: 1 socket, 2 cores, 4 CPUs",
				"  smt: on: 2 threads per core → CPUs 0-1 are threads of one core and slow each other down; " +
					"use one thread of each core, taskset --cpu-list 0,2 nettoll run, or switch it off, echo off > " +
					"/sys/devices/system/cpu/smt/control",
				"  cpus_used: sources 0-1, sinks 2-3",
				"  governor: powersave (driver intel_pstate) → the clock follows the load: cpupower frequency-set -g performance",
				"  turbo: on → the clock follows heat and neighbours: echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo",
				"  idle_states: POLL 0 µs, C1 2 µs, C6 133 µs → waking up takes up to 133 µs: cpupower idle-set " +
					"--disable-by-latency 20",
				"  clocksource: hpet → reading the time is slow: echo tsc > " +
					"/sys/devices/system/clocksource/clocksource0/current_clocksource",
				"  steal: 0 % of a core just now",
				"  load: 3.25 over the last minute, 0.6 cores busy just now → other programs use the CPUs: stop those that are not needed",
				"  mitigations: 1 in place (meltdown), 1 open or unknown (mds), 1 not needed",
				"  kernel: Linux 6.18.0",
				"  congestion_control: cubic by default; available reno, cubic; allowed to everyone reno, cubic",
				"  connection_tracking: in network namespaces with something that asks for it",
				"  neighbours: at most 128 → many containers on one link forget each other: sysctl -w " +
					"net.ipv4.neigh.default.gc_thresh3=8192",
				"  tracked_connections: at most 262144",
				"  threads: at most 500 (cgroup /user.slice) → many pairs take many threads: a larger pids.max in " +
					"/sys/fs/cgroup/user.slice",
				"  open_files: at most 1048576 per process",
				"  network_namespaces: at most 63000",
				"  user_namespaces: not for ordinary users: sysctl user.max_user_namespaces is 0 → only root can run " +
					"experiments: sysctl -w user.max_user_namespaces=10000",
				"  container_limits: not all: missing memory → the parameters cpus, cpuset and memory of runtimes need it: mount it",
				"  machine_docker: not for docker(use=machine): missing a socket (hint: start it)",
			},
		},
		{
			"nothing is known", nil,
			Options{},
			[]string{
				"? cpu: not known: /proc/cpuinfo does not name it",
				"? virtual_machine: not known: the kernel does not show it",
				"? topology: not known: the kernel does not show it",
				"? smt: not known: the kernel does not show it",
				"? cpus_used: not known: the affinity of this process cannot be read",
				"? governor: not known: the kernel does not show it",
				"? turbo: not known: the kernel does not show it",
				"? idle_states: not known: the kernel does not show it",
				"? clocksource: not known: the kernel does not show it",
				"? steal: not known: the kernel does not show it",
				"? load: not known: the kernel does not show it",
				"? mitigations: not known: the kernel does not show it",
				"? kernel: not known: the kernel does not show it",
				"? congestion_control: not known: the kernel does not show it",
				"? connection_tracking: not known: the kernel does not show it",
				"? neighbours: not known: no sysctl net.ipv4.neigh.default.gc_thresh3 (module not loaded, or not in this " +
					"kernel or namespace)",
				"? tracked_connections: not known: no sysctl net.netfilter.nf_conntrack_max (module not loaded, or not in this " +
					"kernel or namespace)",
				"? threads: not known: the kernel does not show it",
				"? open_files: not known: the kernel does not show it",
				"? network_namespaces: not known: no sysctl user.max_net_namespaces (module not loaded, or not in this " +
					"kernel or namespace)",
				"? user_namespaces: not known: the kernel does not show it",
				"  container_limits: of CPU time, CPUs and memory",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, lines(Look(root(tt.root), tt.with))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// Each case changes one thing of a machine; the finding about it reports that.
func TestFindings(t *testing.T) {
	guest := "flags\t: fpu tsc hypervisor"
	for _, tt := range []struct {
		name    string
		changed map[string]string
		with    Options
		finding string
		want    string
	}{
		{"a guest names its board", map[string]string{
			"proc/cpuinfo": guest, "sys/class/dmi/id/sys_vendor": "QEMU", "sys/class/dmi/id/product_name": "Standard PC",
		}, Options{}, "virtual_machine", "  virtual_machine: yes (QEMU Standard PC)"},
		{
			"a guest does not",
			map[string]string{"proc/cpuinfo": guest},
			Options{},
			"virtual_machine",
			"  virtual_machine: yes",
		},
		{
			"Xen says so",
			map[string]string{"proc/cpuinfo": "", "sys/hypervisor/type": "xen"},
			Options{},
			"virtual_machine",
			"  virtual_machine: yes (xen)",
		},
		{
			"ARM does not say",
			map[string]string{"proc/cpuinfo": "Features : fp asimd"},
			Options{},
			"virtual_machine",
			"? virtual_machine: not known: the kernel does not show it",
		},
		{"a guest's threads", map[string]string{
			"proc/cpuinfo": guest, cpuDir + "online": "0-1", cpuDir + "cpu0/topology/core_cpus_list": "0", cpuDir +
				"cpu1/topology/core_cpus_list": "1",
		}, Options{}, "smt", "? smt: not known: the virtual machine shows 1 thread per core, and hides whether two of them " +
			"share a real one"},
		{
			"no SMT",
			map[string]string{cpuDir + "online": "0,2"},
			Options{Sources: []int{0}, Sinks: []int{2}},
			"smt",
			"  smt: on: 2 threads per core",
		},
		{
			"one core in all",
			map[string]string{cpuDir + "online": "0-1"},
			Options{Sources: []int{0}, Sinks: []int{1}},
			"smt",
			"  smt: on: 2 threads per core → CPUs 0-1 are threads of one core and slow each other down, or switch it " +
				"off, echo off > /sys/devices/system/cpu/smt/control",
		},
		{"two sockets, two nodes", map[string]string{
			cpuDir + "cpu2/topology/physical_package_id": "1", cpuDir + "cpu3/topology/physical_package_id": "1",
			"sys/devices/system/node/online": "0-1",
		}, Options{}, "topology", "  topology: 2 sockets, 2 cores, 4 CPUs, 2 memory nodes"},
		{
			"sockets unknown",
			map[string]string{cpuDir + "cpu0/topology/physical_package_id": "-1"},
			Options{},
			"topology",
			"  topology: 2 cores, 4 CPUs",
		},
		{
			"a list that is none",
			map[string]string{cpuDir + "online": "0-x"},
			Options{},
			"topology",
			"? topology: not known: the kernel does not show it",
		},
		{
			"one CPU", nil,
			Options{Sources: []int{3}, Sinks: []int{3}},
			"cpus_used",
			"  cpus_used: sources 3, sinks 3 → sources and sinks share the only CPU: give nettoll at least two",
		},
		{
			"performance",
			map[string]string{cpuDir + "cpu0/cpufreq/scaling_governor": "performance"},
			Options{Sources: []int{0}, Sinks: []int{0}},
			"governor", "  governor: performance (driver intel_pstate)",
		},
		{
			"one that differs",
			map[string]string{cpuDir + "cpu0/cpufreq/scaling_governor": "performance"},
			Options{},
			"governor", "  governor: performance, powersave (driver intel_pstate) → the clock follows the load: cpupower " +
				"frequency-set -g performance",
		},
		{"turbo off", map[string]string{cpuDir + "intel_pstate/no_turbo": "1"}, Options{}, "turbo", "  turbo: off"},
		{
			"boost on",
			map[string]string{cpuDir + "intel_pstate/no_turbo": "", cpuDir + "cpufreq/boost": "1"},
			Options{},
			"turbo", "  turbo: on → the clock follows heat and neighbours: echo 0 > /sys/devices/system/cpu/cpufreq/boost",
		},
		{
			"deep sleep switched off",
			map[string]string{cpuDir + "cpu0/cpuidle/state2/disable": "1"},
			Options{},
			"idle_states",
			"  idle_states: POLL 0 µs, C1 2 µs",
		},
		{
			"a guest's sleep",
			map[string]string{"proc/cpuinfo": guest, cpuDir + "cpu0/cpuidle/state0/name": ""},
			Options{},
			"idle_states", "  idle_states: none",
		},
		{
			"kept awake", nil,
			Options{Awake: true},
			"idle_states",
			"  idle_states: POLL 0 µs, C1 2 µs, C6 133 µs; nettoll keeps CPUs awake during trials",
		},
		{
			"a guest that sleeps",
			map[string]string{"proc/cpuinfo": guest, cpuDir + "cpu0/cpuidle/state0/name": ""},
			Options{Asleep: "no driver"},
			"idle_states",
			"  idle_states: none → threads that wait have to wake their CPU up: no driver",
		},
		{
			"a good clock",
			map[string]string{"sys/devices/system/clocksource/clocksource0/current_clocksource": "kvm-clock"},
			Options{},
			"clocksource", "  clocksource: kvm-clock",
		},
		{
			"no better clock",
			map[string]string{"sys/devices/system/clocksource/clocksource0/available_clocksource": "hpet"},
			Options{},
			"clocksource",
			"  clocksource: hpet → reading the time is slow: boot with tsc=reliable if the CPU's counter is",
		},
		{"stolen from", nil, Options{Modes: map[string]float64{"steal": 0.31}}, "steal", "  steal: 31 % of a core just now " +
			"→ the hypervisor takes CPU time away: a quieter time, or a machine with CPUs of its own"},
		{
			"quiet", nil,
			Options{Modes: map[string]float64{"user": 0.02, "idle": 3}},
			"load",
			"  load: 3.25 over the last minute, 0.0 cores busy just now",
		},
		{
			"few files",
			map[string]string{
				"proc/self/limits": "Max open files            1024                 1024                 files",
			},
			Options{},
			"open_files",
			"  open_files: at most 1024 per process → one process holds the sockets of all pairs: ulimit -Hn 65536",
		},
		{"files without end", map[string]string{
			"proc/self/limits": "Max open files            unlimited            unlimited            files",
		}, Options{}, "open_files", "  open_files: unlimited"},
		{
			"the group itself",
			map[string]string{"sys/fs/cgroup/user.slice/shell/pids.max": "100"},
			Options{},
			"threads",
			"  threads: at most 100 (cgroup /user.slice/shell) → many pairs take many threads: a larger pids.max in " +
				"/sys/fs/cgroup/user.slice/shell",
		},
		{
			"cgroups of old",
			map[string]string{"proc/self/cgroup": "3:pids:/user.slice\n1:name=systemd:/"},
			Options{},
			"threads", "  threads: at most 63000 (ulimit -u)",
		},
		{
			"users may",
			map[string]string{"proc/sys/user/max_user_namespaces": "5000"},
			Options{},
			"user_namespaces",
			"  user_namespaces: at most 5000 per user",
		},
		{"Ubuntu", map[string]string{
			"proc/sys/user/max_user_namespaces": "5000", "proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
		}, Options{}, "user_namespaces", "  user_namespaces: not for ordinary users: sysctl " +
			"kernel.apparmor_restrict_unprivileged_userns is 1 → only root can run experiments: sysctl -w " +
			"kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := laptop()
			maps.Copy(files, tt.changed)
			var got []string
			for _, line := range lines(Look(root(files), tt.with)) {
				if strings.HasPrefix(line[2:], tt.finding+":") {
					got = append(got, line)
				}
			}
			if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
		})
	}
}

func TestList(t *testing.T) {
	for s, want := range map[string][]int{
		"0": {0}, "0-3": {0, 1, 2, 3}, "0,2-3,7": {0, 2, 3, 7},
		"": nil, "a": nil, "1-": nil, "3-1": nil, "-1": nil, "0,": nil, "0-99999999": nil,
	} {
		got, ok := parseList(s)
		if diff := cmp.Diff(want, got); diff != "" || ok != (want != nil) {
			t.Errorf("%q: %v (-want +got):\n%s", s, ok, diff)
		}
		if ok && writeList(got) != s {
			t.Errorf("%q is written %q", s, writeList(got))
		}
	}
}

func FuzzList(f *testing.F) {
	f.Add("0-3,8")
	f.Fuzz(func(t *testing.T, s string) {
		list, ok := parseList(s)
		if ok == (list == nil) {
			t.Fatalf("%q: %v, %v", s, list, ok)
		}
	})
}

// The counts of all CPUs are added up, of the machine's first namespace if it can be read.
func TestFullNeighbours(t *testing.T) {
	const names = "entries  allocs   destroys table_fulls\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  map[string]int64
	}{
		{"none", map[string]string{}, map[string]int64{}},
		{"both", map[string]string{
			"proc/1/net/stat/arp_cache":    names + "00000152 0006cc8b 0006a35b 00000000\n00000152 0006cc8b 0006a35b 00000001\n",
			"proc/1/net/stat/ndisc_cache":  names + "00000152 0006cc8b 0006a35b 000015c5\n00000152 0006cc8b 0006a35b 000015c9\n",
			"proc/self/net/stat/arp_cache": names + "00000152 0006cc8b 0006a35b 00000007\n",
		}, map[string]int64{"ipv4": 1, "ipv6": 0x15c5 + 0x15c9}},
		{"only one's own", map[string]string{
			"proc/self/net/stat/arp_cache": names + "00000152 0006cc8b 0006a35b 00000007\n",
		}, map[string]int64{"ipv4": 7}},
		{"other forms", map[string]string{
			"proc/1/net/stat/arp_cache": "entries\n00000001\n", "proc/1/net/stat/ndisc_cache": names + "00000152 x\n",
		}, map[string]int64{}},
	} {
		if diff := cmp.Diff(c.want, FullNeighbours(root(c.files))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Open vSwitch's module makes every namespace track connections, but not with Linux 6.12 or later.
func TestTracked(t *testing.T) {
	for release, want := range map[string]bool{
		"6.1.0-53-cloud-amd64": true, "5.15.0": true, "6.11.9": true, "6.12.0": false, "6.18.0": false, "7.0.1": false,
		"": false,
	} {
		files := map[string]string{sysctlDir + "kernel/osrelease": release, "sys/module/openvswitch/refcnt": "0"}
		if got := Tracked(root(files)); got != want {
			t.Errorf("%s: %t", release, got)
		}
		if delete(files, "sys/module/openvswitch/refcnt"); Tracked(root(files)) {
			t.Errorf("%s without the module", release)
		}
	}
}

// Facts that every kernel shows are also found on the machine of the tests.
func TestLookHere(t *testing.T) {
	known := map[string]bool{}
	for _, f := range Look(os.DirFS("/"), Options{Sources: []int{0}, Sinks: []int{0}}) {
		known[f.Name] = f.Known
		t.Log(lines([]Finding{f})[0])
	}
	for _, name := range []string{"topology", "load", "kernel", "congestion_control", "threads", "open_files"} {
		if !known[name] {
			t.Errorf("%s is not known", name)
		}
	}
}

// TestPlugins wants to be told which plugins of CNI are there, and which conflist names one that is not.
func TestPlugins(t *testing.T) {
	files := map[string]string{
		"opt/cni/bin/bridge": "", "usr/lib/cni/host-local": "", "usr/lib/cni/mine": "", "usr/lib/cni/ptp/is a folder": "",
		"etc/cni/net.d/10-good.conflist": `{"plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}, ` +
			`{"type": "mine"}]}`,
		"etc/cni/net.d/20-no.conf": `{"type": "bridge"}`,
	}
	with := Options{
		PluginFolders: []string{"/opt/cni/bin", "/usr/lib/cni"},
		Plugins: map[string]string{
			"bridge": "install p", "host-local": "install p", "ptp": "install p", "flannel": "get it",
		},
	}
	plugins := "  cni_plugins: bridge, host-local; missing in /opt/cni/bin:/usr/lib/cni: flannel, ptp " +
		"(hint: get it; install p)"
	for _, c := range []struct {
		name    string
		changed map[string]string
		want    string
	}{
		{"all is there", nil, "  cni_conflists: 10-good.conflist, in /etc/cni/net.d"},
		{
			"no plugin",
			map[string]string{"etc/cni/net.d/30-ptp.conflist": `{"plugins": [{"type": "ptp"}]}`},
			"  cni_conflists: 10-good.conflist, 30-ptp.conflist, in /etc/cni/net.d → " +
				`30-ptp.conflist names plugin "ptp", which is missing in /opt/cni/bin:/usr/lib/cni: install p`,
		},
		{
			"no IPAM",
			map[string]string{
				"etc/cni/net.d/10-good.conflist": `{"plugins": [{"type": "bridge", "ipam": {"type": "whereabouts"}}]}`,
			},
			`  cni_conflists: 10-good.conflist, in /etc/cni/net.d → 10-good.conflist names plugin "whereabouts", which is ` +
				`missing in /opt/cni/bin:/usr/lib/cni: put it into one of these folders`,
		},
		{
			"one address for all",
			map[string]string{
				"etc/cni/net.d/30-fixed.conflist": `{"plugins": [{"type": "bridge", "ipam": {"type": "static", "addresses": ` +
					`[{"address": "10.88.0.5/24"}]}}]}`,
			},
			"  cni_conflists: 10-good.conflist, 30-fixed.conflist, in /etc/cni/net.d → " +
				`30-fixed.conflist has IPAM "static", which gives every container the same addresses: use IPAM "host-local" ` +
				"with a range",
		},
		{
			"no addresses",
			map[string]string{
				"etc/cni/net.d/10-good.conflist": `{"plugins": [{"type": "bridge", "ipam": {"type": "static"}}]}`,
			},
			`  cni_conflists: 10-good.conflist, in /etc/cni/net.d → 10-good.conflist has IPAM "static" without addresses: ` +
				`use IPAM "host-local" with a range`,
		},
		{
			"static in a later plugin",
			map[string]string{
				"opt/cni/bin/static": "",
				"etc/cni/net.d/10-good.conflist": `{"plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}, ` +
					`{"type": "mine", "ipam": {"type": "static"}}]}`,
			},
			"  cni_conflists: 10-good.conflist, in /etc/cni/net.d",
		},
		{
			"no JSON",
			map[string]string{"etc/cni/net.d/10-good.conflist": `{"plugins": `},
			"  cni_conflists: 10-good.conflist, in /etc/cni/net.d → 10-good.conflist is not valid JSON: " +
				"unexpected end of JSON input",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := maps.Clone(files)
			maps.Copy(all, c.changed)
			if diff := cmp.Diff([]string{plugins, c.want}, lines((&machine{root: root(all), Options: with}).cni())); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
	got := lines((&machine{root: root(nil), Options: with}).cni())
	if !strings.Contains(got[0], "cni_plugins: none; missing") || got[1] != "  cni_conflists: none in /etc/cni/net.d" {
		t.Errorf("without CNI: %q", got)
	}
}
