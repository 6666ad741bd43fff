package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
)

// Other programs read the frames that --pcap keeps. tshark recognizes the protocols of tunnels and encryptions by their
// headers. The packet lengths that tcpdump reads differ by the overhead that the proof reports. Neither program sees a
// container's packet in the frames of an encryption. Trials say what CPU time the programs used that carried packets.
func TestDissected(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	tshark, tcpdump := testnet.Program(t, "tshark", "tshark"), testnet.Program(t, "tcpdump", "tcpdump")
	for _, run := range []struct {
		kind, parts, base string
		// needs are the programs of the stacks, and the packages that they are in.
		needs map[string]string
		// carry are the stacks whose packets programs carry, and kernel one whose packets the kernel carries.
		carry  []string
		kernel string
		// want are the protocols of a frame with an IPv4 packet of a container, by stack. After a colon at the end others
		// follow.
		want map[string]string
	}{
		{
			kind: "tunnel", parts: "ipip(impl=ebpf),gre(impl=ebpf),vxlan,geneve(impl=ovs)", base: "bridge+vxlan",
			needs: map[string]string{"ovs-vswitchd": "openvswitch-switch"},
			carry: []string{"bridge+geneve(impl=ovs)"}, kernel: "bridge+vxlan",
			want: map[string]string{
				"bridge+ipip(impl=ebpf)":  "eth:ethertype:ip:ip:udp:data",
				"bridge+gre(impl=ebpf)":   "eth:ethertype:ip:gre:ip:udp:data",
				"bridge+vxlan":            "eth:ethertype:ip:udp:vxlan:eth:ethertype:ip:udp:data",
				"bridge+geneve(impl=ovs)": "eth:ethertype:ip:udp:geneve:eth:ethertype:ip:udp:data",
			},
		},
		{
			kind: "encryption", parts: "wireguard,ipsec,openvpn,tinc", base: "bridge+wireguard",
			needs: map[string]string{"openvpn": "openvpn", "charon-systemd": "charon-systemd", "tincd": "tinc"},
			carry: []string{"bridge+openvpn", "bridge+tinc"}, kernel: "bridge",
			want: map[string]string{
				"bridge+wireguard": "eth:ethertype:ip:udp:wg",
				"bridge+ipsec":     "eth:ethertype:ip:udp:udpencap:esp",
				"bridge+openvpn":   "eth:ethertype:ip:udp:openvpn",
				"bridge+tinc":      "eth:ethertype:ip:udp:", // tshark does not know it, and guesses by what is in it
			},
		},
	} {
		t.Run(run.kind, func(t *testing.T) {
			testnet.Turn(t)
			t.Parallel()
			for program, pkg := range run.needs {
				testnet.Program(t, program, pkg)
			}
			s := start(t, "--pcap", "--network", "bridge", "--"+run.kind, run.parts, "--baseline", run.base,
				"--time", "1s", "--workload", "udp-rr(mode=wait)", "--placement", "cross-host")
			if status := s.wait(patience); status != 0 {
				t.Fatalf("exit status %d\n%s", status, s.stderr.String())
			}
			log, _ := s.records()
			worked(t, log, run.kernel, run.carry...)
			tried := map[string]bool{}
			for _, p := range log.Proofs {
				stack, _, _ := strings.Cut(p.Lab, "/")
				if p.Name != proof.OnWire || tried[stack] || run.want[stack] == "" {
					continue
				}
				tried[stack] = true
				added := number(t, ` (\d+) bytes longer at full size`, p.Claim)
				mtu := 0
				for _, other := range log.Proofs {
					if other.Lab == p.Lab && other.Name == proof.Passes {
						mtu = number(t, `packets of (\d+) bytes`, other.Claim)
					}
				}
				path := filepath.Join(s.dir, "pcap", "1-"+strings.ReplaceAll(p.Lab, "/", "-")+"-before.pcapng")
				is := func(f string) bool {
					return f == run.want[stack] || strings.HasSuffix(run.want[stack], ":") && strings.HasPrefix(f, run.want[stack])
				}
				if found := protocols(t, tshark, path); !slices.ContainsFunc(found, is) {
					t.Errorf("%s: tshark finds %q, want %q", p.Lab, found, run.want[stack])
				} else if run.kind == "encryption" {
					found = slices.DeleteFunc(found, func(f string) bool { return is(f) || strings.HasSuffix(f, ":arp") })
					if len(found) > 0 {
						t.Errorf("%s: tshark also finds %q", p.Lab, found)
					}
				}
				outer, inner := lengths(t, tcpdump, path)
				if run.kind == "encryption" {
					inner = mtu // tcpdump cannot read it
				}
				if outer-inner != added || inner != mtu {
					t.Errorf("%s: tcpdump reads packets of %d bytes in packets of %d, and the proof says %d, and %d more", p.Lab,
						inner, outer, mtu, added)
				}
			}
			if len(tried) != len(run.want) {
				t.Errorf("what was heard between hosts of %v was proved, want %d stacks", tried, len(run.want))
			}
		})
	}
}

// worked wants each trial of the stacks whose packets programs carry to say that these used CPU time, and no trial of
// the stack whose packets the kernel carries to say so.
func worked(t *testing.T, log *measure.Log, kernel string, programs ...string) {
	t.Helper()
	tried := map[string]bool{}
	for _, trial := range log.Trials {
		stack, _, _ := strings.Cut(trial.Cell, "/")
		cores := trial.Metrics["cpu_programs"]
		if by := slices.Contains(programs, stack); trial.Failed == "" && (by || stack == kernel) {
			tried[stack] = true
			if by != (cores > 0) {
				t.Errorf("generation %d, %s: programs used %g CPUs", trial.Generation, trial.Cell, cores)
			}
		}
	}
	if len(tried) != 1+len(programs) {
		t.Errorf("there are trials of %v, want %s and %s", tried, kernel, programs)
	}
}

// number returns the number in a text that matches a pattern.
func number(t *testing.T, pattern, text string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %q in %q", pattern, text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// protocols returns the protocols of the frames of a file, as tshark dissects them, each list once.
func protocols(t *testing.T, tshark, path string) []string {
	t.Helper()
	said, err := exec.Command(tshark, "-r", path, "-T", "fields", "-e", "frame.protocols").Output()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(said)))))
}

// lengths returns the length in bytes of the longest IPv4 packet in a file, and that of the innermost packet that
// tcpdump reads in it. Both are the same if it reads no inner packet.
func lengths(t *testing.T, tcpdump, path string) (outer, inner int) {
	t.Helper()
	said, err := exec.Command(tcpdump, "-e", "-v", "-nn", "-r", path).Output()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	// A packet begins with its time. "proto UDP (17), length 1500)" is an IPv4 header.
	begin := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d+ `)
	header := regexp.MustCompile(`proto \S+ \(\d+\), length (\d+)\)`)
	for _, packet := range begin.Split(string(said), -1) {
		var read []int
		for _, m := range header.FindAllStringSubmatch(packet, -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			read = append(read, n)
		}
		if len(read) > 0 && read[0] >= outer && (read[0] > outer || read[len(read)-1] < inner) {
			outer, inner = read[0], read[len(read)-1]
		}
	}
	if outer == 0 {
		t.Fatalf("%s: tcpdump reads no packet of IPv4:\n%s", path, fmt.Sprintf("%.500s", said))
	}
	return outer, inner
}

// tshark also recognizes the frames of the kernel's own devices. The frames of testdata/frames.txt were recorded in a
// guest with Linux 6.12 (make test-guest), on the underlay of a lab of each stack: this kernel may lack those devices.
func TestRecordedFrames(t *testing.T) {
	tshark := testnet.Program(t, "tshark", "tshark")
	data, err := os.ReadFile(filepath.Join("testdata", "frames.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"geneve":                        "eth:ethertype:ip:udp:geneve:eth:ethertype:ip:udp:data",
		"gre(impl=kernel)":              "eth:ethertype:ip:gre:ip:udp:data",
		"ipsec(impl=kernel,encap=none)": "eth:ethertype:ip:esp",
		"wireguard(impl=kernel)":        "eth:ethertype:ip:udp:wg",
	}
	for line := range strings.Lines(string(data)) {
		stack, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		frame, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "frame.pcap")
		if err := os.WriteFile(path, captured(frame), 0o600); err != nil {
			t.Fatal(err)
		}
		if found := protocols(t, tshark, path); !slices.Equal(found, []string{want[stack]}) {
			t.Errorf("%s: tshark finds %q, want %q", stack, found, want[stack])
		}
		delete(want, stack)
	}
	if len(want) > 0 {
		t.Errorf("no frame of %v", want)
	}
}

// captured returns a file of libpcap with one frame (pcap-savefile(5)).
func captured(frame []byte) []byte {
	const magic, ethernet, longest = 0xa1b2c3d4, 1, 1 << 16
	b := binary.LittleEndian.AppendUint32(nil, magic)
	b = binary.LittleEndian.AppendUint16(b, 2) // version 2.4
	b = binary.LittleEndian.AppendUint16(b, 4)
	for _, x := range []uint32{0, 0, longest, ethernet, 0, 0, uint32(len(frame)), uint32(len(frame))} {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return append(b, frame...)
}
