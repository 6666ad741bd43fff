package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
)

// What nmap tries in a lab of two pairs. Where filters have to know them, sinks have 64 ports for each visit and two more,
// of which the last is on no list (control/ports.go): here, with a visit for each family, those from 20000 and those up to
// 59999. Tried are the first and the last that are on the list, those beside them, ports of sources, and others.
const probed = "0,1,22,19999,20000,20064,20128,20129,30000,45000,59869,59870,59998,59999,65535"

// onList are those of them that are on the allow-list, for connections or for what answers.
func onList() map[[2]string]string {
	return map[[2]string]string{
		{"src0", "snk0"}: "[20000 20064 20128]", {"snk0", "src0"}: "[30000]",
		{"src1", "snk1"}: "[59870 59998]", {"snk1", "src1"}: "[45000 59869]",
	}
}

// scanned is what nmap prints with -oX, as far as it is read here.
type scanned struct {
	Hosts []struct {
		Addresses []struct {
			Addr string `xml:"addr,attr"`
		} `xml:"address"`
		Ports []struct {
			ID    string `xml:"portid,attr"`
			State struct {
				State string `xml:"state,attr"`
			} `xml:"state"`
		} `xml:"ports>port"`
	} `xml:"host"`
}

// TestNmap compares the matrix of who reaches whom with what nmap finds from within the containers of a lab: with SYN
// and ACK, from a port that the allow-list has for the container, to all others, in both families. Each hour, CI has
// another stack.
func TestNmap(t *testing.T) {
	testnet.Root(t)
	nmap := testnet.Program(t, "nmap", "nmap")
	stacks := []string{"bridge", "bridge+nftables", "routed+iptables(stateful=true)", "macvlan+nftables", "ovs+ovs", "ebpf+ebpf"}
	for i, name := range stacks {
		if !testnet.IsSlow() && i != testnet.Hour()%len(stacks) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s, err := catalogue.New().Kinds.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			testnet.Skip(t, s.Check())
			up := nettoll(t, "lab", "up", "--stack", name, "--placement", "same-host", "--pairs", "2", "--time", "5m",
				"--set", "factors.family=[ipv4,ipv6]")
			if up.status != 0 {
				t.Fatalf("lab up exits with %d: %s", up.status, up.stderr)
			}
			lab, _, _ := strings.Cut(strings.TrimPrefix(up.stdout, "lab "), ": ")
			defer func() {
				if down := nettoll(t, "lab", "down", lab); down.status != 0 {
					t.Errorf("lab down exits with %d: %s", down.status, down.stderr)
				}
			}()
			proved := nettoll(t, "prove", "--lab", lab, "--attack", "none", "--output", "json")
			var labs []struct {
				Matrix measure.Matrix `json:"matrix"`
			}
			if err := json.Unmarshal([]byte(proved.stdout), &labs); err != nil || len(labs) != 1 {
				t.Fatalf("prove exits with %d: %v\n%s", proved.status, err, proved.stderr)
			}
			m := &labs[0].Matrix
			for _, family := range []string{"ipv4", "ipv6"} {
				addresses := map[string]string{}
				for _, name := range m.From {
					addresses[name] = addressOf(t, lab, name, family)
				}
				found := make([]map[string]*answered, len(m.From))
				var all sync.WaitGroup
				for i, name := range m.From {
					all.Go(func() { found[i] = scan(t, nmap, lab, name, family, addresses) })
				}
				all.Wait()
				for from, name := range m.From {
					for to, other := range m.From {
						if from == to {
							continue
						}
						said, got := m.At(family, from, to), found[from][other]
						if want := got.reach(onList()[[2]string{name, other}]); said != want &&
							!(said == measure.ReachClosed && want == measure.ReachRefused) {
							t.Errorf("%s: %s to %s: the matrix says %s, nmap %s: %+v", family, name, other, string(said), string(want), got)
						}
					}
				}
			}
		})
	}
}

// addressOf is the address of a container.
func addressOf(t *testing.T, lab, name, family string) string {
	t.Helper()
	version := map[string]string{"ipv4": "-4", "ipv6": "-6"}[family]
	said := nettoll(t, "lab", "exec", "--lab", lab, name, "--", "ip", "-json", version, "address", "show", "scope", "global")
	var links []struct {
		Addresses []struct {
			Local string `json:"local"`
		} `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(said.stdout), &links); err != nil {
		t.Fatalf("addresses of %s: %v\n%s", name, err, said.stderr)
	}
	for _, l := range links {
		for _, a := range l.Addresses {
			return a.Local
		}
	}
	t.Fatalf("%s has no address of %s: %s", name, family, said.stdout)
	return ""
}

// answered is at which ports a container answers another one, whether they are open or not.
type answered struct{ syn, ack []string }

// reach is what the matrix has to say of that. list are the ports on the allow-list, which a SYN need not reach: answers
// go to the ports of sources.
func (a *answered) reach(list string) measure.Reach {
	syn, ack := fmt.Sprint(a.syn), fmt.Sprint(a.ack)
	switch everything := "[" + strings.ReplaceAll(probed, ",", " ") + "]"; {
	case syn == "[]" && ack == "[]":
		return measure.ReachRefused
	case (syn == list || syn == "[]") && (ack == list || ack == "[]"):
		return measure.ReachAllowed
	case syn == everything && ack == everything:
		return measure.ReachOpen
	}
	return measure.ReachLeak
}

// scan asks all others, from a port that is on the list for the container.
func scan(t *testing.T, nmap, lab, from, family string, addresses map[string]string) map[string]*answered {
	all := map[string]*answered{}
	var others []string
	for name, a := range addresses {
		all[name] = &answered{}
		if name != from {
			others = append(others, a)
		}
	}
	port := map[string]string{"src0": "30000", "snk0": "20000", "src1": "45000", "snk1": "59870"}[from]
	for _, kind := range []string{"-sS", "-sA"} {
		args := []string{
			"lab", "exec", "--lab", lab, from, "--", nmap, "-n", "-Pn", kind, "-T4", "--max-retries", "3", "-g", port, "-p", probed,
			"-oX", "-",
		}
		if family == "ipv6" {
			args = append(args, "-6")
		}
		said := nettoll(t, append(args, others...)...)
		var got scanned
		if err := xml.Unmarshal([]byte(said.stdout), &got); err != nil || len(got.Hosts) != len(others) {
			t.Errorf("nmap from %s exits with %d: %v, %d hosts\n%s%s", from, said.status, err, len(got.Hosts), said.stdout, said.stderr)
			return all
		}
		for _, h := range got.Hosts {
			for name, a := range addresses {
				if a != h.Addresses[0].Addr {
					continue
				}
				var ports []string
				for _, p := range h.Ports {
					if p.State.State == "open" || p.State.State == "closed" || p.State.State == "unfiltered" {
						ports = append(ports, p.ID)
					}
				}
				if len(h.Ports) != strings.Count(probed, ",")+1 {
					t.Errorf("nmap from %s to %s tells of %d ports", from, name, len(h.Ports))
				}
				if kind == "-sS" {
					all[name].syn = ports
				} else {
					all[name].ack = ports
				}
			}
		}
	}
	return all
}
