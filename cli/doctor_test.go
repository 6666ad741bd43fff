package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/stack"
)

// tried returns a part with results, given as pairs of a way and its result: "" works, "-REASON" is left out, and any
// other text is an error.
func tried(kind, name string, ways ...string) *diagnosed {
	d := &diagnosed{Kind: kind, Name: name, Implementation: "kernel", Works: true}
	for i := 0; i+1 < len(ways); i += 2 {
		t := &attempt{What: ways[i]}
		if out, ok := strings.CutPrefix(ways[i+1], "-"); ok {
			t.LeftOut = out
		} else if ways[i+1] == "" {
			t.explain(nil)
		} else {
			t.explain(errors.New(ways[i+1]))
			d.Works = false
		}
		d.Tried = append(d.Tried, t)
	}
	return d
}

func TestDoctorText(t *testing.T) {
	lacking := tried("network", "macvlan")
	lacking.Works = false
	for _, what := range []string{oneHost, twoHosts} {
		at := &attempt{What: what}
		at.explain(fmt.Errorf("build lab: %w", &linux.UnsupportedError{
			What: "create link", Missing: `link type "macvlan"`, Hint: "modprobe macvlan",
			Err: errors.New("operation not supported"),
		}))
		lacking.Tried = append(lacking.Tried, at)
	}
	absent := tried("driver", "iperf3")
	absent.Works = false
	for _, what := range []string{"udp-rate", "tcp-stream"} {
		at := &attempt{What: what}
		at.explain(&linux.UnsupportedError{What: "use iperf3", Missing: `program "iperf3"`, Hint: "apt-get install iperf3"})
		absent.Tried = append(absent.Tried, at)
	}
	d := diagnosis{
		Default: inPart, UserNamespace: true, NotGranted: []string{"this", "that"},
		Parts: []*diagnosed{
			tried("network", "host", oneHost, "", twoHosts, ""),
			tried("network", "nat", oneHost, "-it would be a bridge", twoHosts, ""),
			tried("network", "bridge", oneHost, "", twoHosts, "proof failed: nothing came"),
			lacking,
			tried("runtime", "netns", "a container", ""),
			tried("workload", "udp-rr", "a trial", ""),
			absent,
		},
		Machine: []aboutThere{
			{"cpu", "Some CPU", true, ""},
			{"cpus_used", "sources 0, sinks 1", true, ""},
			{"smt", "not known: the virtual machine hides it and says a great deal more about why it does so", false, ""},
			{"governor", "powersave", true, "the clock follows the load: cpupower frequency-set -g performance"},
		},
	}
	d.judge()
	want := `This machine can measure 3 of 4 networks (1 in part); 1 optional program is not
installed.
The default experiment can run in part here.

✓ network   host     kernel  one host, two hosts
✓ network   nat      kernel  two hosts; left out: one host
! network   bridge   kernel  one host; not two hosts
✗ network   macvlan  kernel  does not work
✓ runtime   netns    kernel  a container
✓ workload  udp-rr   kernel  a trial
– driver    iperf3   kernel  not installed

  network nat, one host: left out: it would be a bridge

  network bridge, two hosts: proof failed: nothing came

  network macvlan: missing link type "macvlan" (what would help: modprobe
  macvlan)

  driver iperf3: missing program "iperf3" (what would help: apt-get install
  iperf3)

Everything was tried inside a user namespace, as run does without root.
Not granted here: this; that.

  CPU        Some CPU
  CPUs used  sources 0, sinks 1
? SMT        not known: the virtual machine hides it and says a great deal more
             about why it does so
! governor   powersave

! governor: the clock follows the load: cpupower frequency-set -g performance
`
	var b strings.Builder
	if err := d.write(&b, 80, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}

	b.Reset()
	d.Machine = d.Machine[:2]
	if err := d.write(&b, 80, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\x1b[32m✓\x1b[0m network   host", "\x1b[33m!\x1b[0m network   bridge", "\x1b[31m✗\x1b[0m network   macvlan",
		"No advice.\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("with colours it does not hold %q:\n%s", want, b.String())
		}
	}
}

// A reason that all parts share is shown once.
func TestDoctorOfNothing(t *testing.T) {
	refused := &linux.UnsupportedError{What: "make a user namespace", Missing: "permission", Hint: "run as root"}
	var parts []*diagnosed
	for _, name := range []string{"host", "bridge", "nat", "macvlan"} {
		d := tried("network", name, oneHost, "", twoHosts, "")
		for _, way := range d.Tried {
			way.explain(refused)
		}
		parts = append(parts, d)
	}
	parts[2].Tried[0] = &attempt{What: oneHost, LeftOut: "no use"}
	p := page{width: 80}
	p.problems(parts)
	want := "\n  all of them: missing permission (what would help: run as root)\n\n  network nat, one host: left out: " +
		"no use\n"
	if diff := cmp.Diff(want, p.text.String()); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	parts[1].Tried[1].explain(nil)
	p = page{width: 80}
	p.problems(parts)
	want = "\n  network host; network bridge, one host; 2 more: missing permission (what would\n  help: run as " +
		"root)\n\n  network nat, one host: left out: no use\n"
	if diff := cmp.Diff(want, p.text.String()); diff != "" {
		t.Errorf("but one (-want +got):\n%s", diff)
	}
}

// Whether the default experiment can run depends only on the parts that it uses.
func TestDefaultExperiment(t *testing.T) {
	parts := catalogue.New().Parts()
	all := func(change func(kind, name, what string) string) *diagnosis {
		d := &diagnosis{}
		add := func(kind, name string, ways ...string) {
			var list []string
			for _, what := range ways {
				list = append(list, what, change(kind, name, what))
			}
			d.Parts = append(d.Parts, tried(kind, name, list...))
		}
		for _, n := range stack.PartsOf[network.Network](parts.Kinds) {
			add("network", n.Describe().Name, oneHost, twoHosts)
		}
		for _, r := range stack.PartsOf[runtime.Runtime](parts.Kinds) {
			add("runtime", r.Describe().Name, "a container")
		}
		for _, w := range parts.Workloads {
			add("workload", w.Describe().Name, "a trial")
		}
		add("driver", "iperf3", "tcp-stream")
		return d
	}
	for _, tt := range []struct {
		name     string
		fails    func(kind, name, what string) bool
		want     string
		anything bool
	}{
		{"nothing fails", func(_, _, _ string) bool { return false }, canRun, true},
		{"a driver that it does not use", func(kind, _, _ string) bool { return kind == "driver" }, canRun, true},
		{"a workload that it does not use", func(_, name, _ string) bool { return name == "udp-rate" }, canRun, true},
		{"its bridge across hosts", func(_, name, what string) bool {
			return name == "bridge" && what == twoHosts
		}, inPart, true},
		{"its stream", func(_, name, _ string) bool { return name == "tcp-stream" }, inPart, true},
		{"its baseline", func(_, name, _ string) bool { return name == "host" }, cannotRun, true},
		{"all workloads", func(kind, _, _ string) bool { return kind == "workload" }, cannotRun, false},
		{"all", func(_, _, _ string) bool { return true }, cannotRun, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := all(func(kind, name, what string) string {
				if tt.fails(kind, name, what) {
					return "broken"
				}
				return ""
			})
			got, err := d.defaultExperiment(parts, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want || d.anything() != tt.anything {
				t.Errorf("%q, anything %v; want %q, %v", got, d.anything(), tt.want, tt.anything)
			}
		})
	}
}

func TestLabel(t *testing.T) {
	for name, want := range map[string]string{
		"cpu": "CPU", "cpus_used": "CPUs used", "smt": "SMT", "idle_states": "idle states",
	} {
		if got := label(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
