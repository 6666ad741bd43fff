package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
)

// If a program of a host dies or hangs, its lab loses a block and is rebuilt, across hosts too. The rebuilt lab has a
// record of its cost, like the labs of the generations.
func TestProgramDies(t *testing.T) {
	testnet.Root(t)
	const spin = "udp-rr(mode=spin)"
	for _, c := range []struct {
		program, pkg string
		signal       unix.Signal
		args         []string
		lab          string
		says         []string
		told         []string // metrics of the lab's records, in s
	}{
		{
			"ovs-vswitchd", "openvswitch-switch", unix.SIGKILL,
			[]string{"--network", "ovs", "--set", "factors.filter={ovs: {rules: 10}}", "--workload", spin},
			"ovs+ovs(rules=10)",
			[]string{"killed", "ovs+ovs(rules=10), rebuilt"},
			[]string{"setup_time", "rules_load_time", "rule_update_time", "rule_effect_time"},
		},
		{
			"openvpn", "openvpn", unix.SIGSTOP,
			[]string{"--network", "bridge", "--encryption", "openvpn", "--workload", spin},
			"bridge+openvpn",
			[]string{"is stopped (SIGSTOP); its last lines:"},
			[]string{"setup_time"},
		},
		{
			"dockerd", "docker.io", unix.SIGKILL,
			[]string{"--network", "bridge", "--runtime", "docker", "--workload", "udp-rr"},
			"bridge@docker",
			[]string{"killed", "bridge@docker, rebuilt"},
			[]string{"setup_time"},
		},
		{
			"containerd", "containerd", unix.SIGKILL, // below dockerd
			[]string{"--network", "bridge", "--runtime", "docker", "--workload", "udp-rr"},
			"bridge@docker",
			[]string{"killed", "bridge@docker, rebuilt"},
			[]string{"setup_time"},
		},
		{
			"containerd", "containerd", unix.SIGKILL,
			[]string{"--network", "bridge", "--runtime", "containerd", "--workload", "udp-rr"},
			"bridge@containerd",
			[]string{"killed", "bridge@containerd, rebuilt"},
			[]string{"setup_time"},
		},
	} {
		t.Run(c.program+" of "+c.lab, func(t *testing.T) {
			testnet.Turn(t)
			t.Parallel()
			testnet.Program(t, c.program, c.pkg)
			// Long enough for several blocks in each generation: the first is followed by others in which it dies.
			s := start(t, append(c.args, "--time", "10s", "--baseline", "host", "--placement", "cross-host")...)
			again := func(log *measure.Log) bool {
				return slices.ContainsFunc(log.Labs, func(l measure.LabRecord) bool { return l.Rebuilt })
			}
			var groups []string
			for log := (&measure.Log{}); !again(log); {
				s.measuring()
				before, _ := s.records()
				members := s.members()
				groups = append(groups, groupsOf(members)...)
				i := slices.IndexFunc(members, func(m member) bool {
					return len(m.args) > 0 && filepath.Base(m.args[0]) == c.program
				})
				if i < 0 {
					continue // its generation has ended
				}
				if err := unix.Kill(members[i].pid, c.signal); err != nil && !errors.Is(err, unix.ESRCH) {
					t.Fatal(err)
				}
				s.until("the lab is built once more, or all are", func() bool {
					log, _ = s.records()
					return again(log) || log.Blocks[len(log.Blocks)-1].Generation > before.Blocks[len(before.Blocks)-1].Generation
				})
			}
			if status := s.wait(60 * time.Second); status != 0 {
				t.Errorf("exit status %d, want 0\n%s", status, s.stderr.String())
			}
			for _, dir := range groups {
				if _, err := os.Stat(dir); err == nil {
					t.Errorf("after its end there still is cgroup %s", dir)
				}
			}
			if contained := slices.Contains(c.args, "--runtime"); contained && len(groups) == 0 {
				t.Error("its containers have no cgroups")
			}
			contains(t, "stdout", oneLine(s.stdout.String()), append(c.says, c.program, "the lab was rebuilt")...)
			log, _ := s.records()
			labs, rebuilt := 0, 0
			for _, l := range log.Labs {
				if _, built := l.Metrics["setup_time"]; l.Lab != c.lab+"/cross-host/1" || !built { // other records have its use
					continue
				}
				labs++
				if l.Rebuilt {
					rebuilt++
				}
				for _, name := range c.told {
					if x := l.Metrics[name]; x <= 0 || x > 30 {
						t.Errorf("generation %d (built once more: %v): %s is %g s", l.Generation, l.Rebuilt, name, x)
					}
				}
			}
			run := measure.Analyze(measure.Run{}, log)
			if rebuilt != 1 || len(run.Rebuilt) == 0 || labs < 2 {
				t.Errorf("%d records of the lab, %d of them of the one that was built once more, %d figures", labs, rebuilt,
					len(run.Rebuilt))
			}
		})
	}
}

// groupsOf returns the directories of the cgroups of containers in which processes of a session are.
func groupsOf(members []member) (list []string) {
	for _, m := range members {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", m.pid))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			_, at, is := strings.Cut(strings.TrimSpace(line), "/nettoll-")
			if !is {
				continue
			}
			name, _, _ := strings.Cut(at, "/")
			for _, below := range []string{"/sys/fs/cgroup/nettoll-", "/sys/fs/cgroup/*/nettoll-"} {
				found, _ := filepath.Glob(below + name) // the pattern is valid
				list = append(list, found...)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
