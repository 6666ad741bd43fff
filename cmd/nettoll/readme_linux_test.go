package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// The commands of the README do what it says, in its order and in one directory. Those that measure are made short. Its
// experiment can be planned.
func TestReadme(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	workloadtest.Loopback(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	defer labsDown(t, dir)
	run := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.Command(os.Getenv(programEnv), args...)
		// labs of its own
		cmd.Dir, cmd.Stdin, cmd.Env = dir, strings.NewReader(stdin), append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("nettoll %s: %v\n%s", strings.Join(args, " "), err, said)
		}
		return string(said)
	}
	// lacks says whether a command needs a program that is known to be missing.
	lacks := func(words string) bool {
		for part, program := range map[string][2]string{
			"iptables": {"iptables-nft", "iptables"}, " -- ip ": {"ip", "iproute2"}, "run suite:ji2019": {"lxc-start", "lxc"},
		} {
			if !strings.Contains(words, part) {
				continue
			}
			if _, err := testnet.Locate(program[0], program[1]); err != nil && testnet.Excused(err) {
				t.Logf("left out: nettoll %s: %v", words, err)
				return true
			}
		}
		return false
	}
	figure := []string{"--time", "200ms", "--trial", "50ms", "-o", "FIGURE"}
	if !testnet.IsSlow() {
		figure = append(figure, "--set", "factors.pairs=1") // claim 7 is about ten pairs
	}
	short := map[string][]string{ // arguments that shorten a command of the README
		"run default.yaml": {
			"--time", "200ms", "--trial", "50ms", "--network", "bridge", "--workload", "udp-rr(mode=wait)",
			"--placement", "same-host", "-o", "OLD",
		},
		"run suite:ji2019": {"--time", "200ms", "--trial", "50ms", "--placement", "same-host", "--pairs", "1", "-o", "JI"},
		"run --network routed,bridge --filter none,nftables(match=set,rules=1000),iptables(rules=1000) --placement " +
			"same-host": {"--time", "200ms", "--trial", "50ms", "--workload", "udp-rr(mode=wait)", "-o", "FILTERS"},
		"run --network bridge --tunnel vxlan --placement cross-host": {
			"--time", "200ms", "--trial", "50ms", "--workload", "udp-rr(mode=wait)", "-o", "TUNNEL",
		},
		"run --network macvlan --baseline bridge": {
			"--time", "200ms", "--trial", "50ms", "--workload", "udp-rr(mode=wait)", "--placement", "same-host", "-o", "MACVLAN",
		},
		"run --network bridge --filter nftables(rules=[10,1000])": {
			"--time", "200ms", "--trial", "50ms", "--workload", "udp-rr(mode=wait)", "--placement", "same-host", "-o", "RULES",
		},
		"run --network bridge --mtu 1500,9000 --workload tcp-stream": {
			"--time", "200ms", "--trial", "50ms", "--placement", "same-host", "-o", "MTU",
		},
		"run --network bridge --congestion-control cubic,bbr --workload tcp-stream --placement cross-host": {
			"--time", "200ms", "--trial", "50ms", "-o", "CONGESTION",
		},
		"init filters":                          nil,
		"compare OLD NEW":                       nil,
		"init":                                  nil,
		"plan default.yaml":                     nil,
		"compare OLD NEW --fail-on slower":      nil,
		"compare OLD NEW --absolute":            nil,
		"compare OLD NEW --output junit":        nil,
		"compare A B C":                         nil,
		"run suite:ji2019 --figure 4 --claim 7": figure,
		"run suite:ji2019 --time 60s":           {"--time", "200ms", "--trial", "50ms", "-o", "LESS"},
		"sink":                                  nil,
		"source udp-rr 127.0.0.1":               {"--time", "200ms"},
		"source tcp-stream(direction=reverse) 127.0.0.1": {"--time", "200ms"},
		"source ping 127.0.0.1":                          {"--time", "200ms"},
		"lab up --stack bridge --time 1h":                {"--time", "1m"},
		"lab exec h1/src0 -- ip address":                 nil,
		"lab graph --output svg -o lab.svg":              nil,
		"lab down":                                       nil,
		"image -o nettoll.tar":                           nil,
	}
	seen := 0
	here := shell{t: t}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(line, " #")
			words, ok := strings.CutPrefix(strings.TrimSpace(strings.ReplaceAll(line, "'", "")), "nettoll ")
			if !ok {
				continue
			}
			more, known := short[words]
			if !known {
				t.Errorf("the README says %q, and this test does not know how to make it short", words)
				continue
			}
			seen++
			if words == "sink" { // it waits for sources
				here.sink("nettoll sink")
				continue
			}
			if lacks(words) {
				continue
			}
			run("", append(strings.Fields(words), more...)...)
			if slices.Contains(more, "OLD") {
				for _, copied := range []string{"NEW", "A", "B", "C"} {
					if err := os.CopyFS(filepath.Join(dir, copied), os.DirFS(filepath.Join(dir, "OLD"))); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	if seen != len(short) {
		t.Errorf("%d commands, and the test knows %d: what the README does not say any more is dead here", seen, len(short))
	}
	yaml := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(text)
	if yaml == nil {
		t.Fatal("there is no experiment in the README")
	}
	if said := run(string(yaml[1]), "plan", "-"); !strings.HasPrefix(said, "experiment bridge-or-macvlan: ") {
		t.Errorf("plan of the README's experiment: %s", said)
	}
}
