package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/stack"
)

const said = `
--- PASS: TestConformance (0.1s)
    --- PASS: TestConformance/bridge (0.1s)
        --- PASS: TestConformance/bridge/shape (0.0s)
        --- PASS: TestConformance/bridge/packets,_1_hosts,_1_pairs (0.1s)
        --- PASS: TestConformance/bridge/packets,_1_hosts,_3_pairs (0.1s)
        --- PASS: TestConformance/bridge/path,_1_hosts (0.1s)
        --- PASS: TestConformance/bridge/path,_2_hosts (0.1s)
        --- FAIL: TestConformance/bridge/tampering (0.1s)
guest: github.com/x/filter/y: PASS: TestConformance/legacy/y(rules=3)/nat(hairpin=true),hosts=1/packets,_ipv4_and_ipv6 (1.5s)
guest: github.com/x/filter/y: SKIP: TestConformance/legacy/y(rules=3)/nat(hairpin=true),hosts=1/undo (1.5s)
    --- PASS: TestFlannel/cni(plugin=flannel,bin=/tmp/a_b:/opt/cni,daemon=/c/fl-1,etcd=/bin/etcd)/undo,_2_hosts (1.1s)
    --- PASS: TestTap/cni(plugin=tap,bin=/tmp/a_b:/opt/cni)/path,_2_hosts (1.1s)
guest: github.com/x/network/z: SKIP: TestConformance/z/packets,_1_hosts,_1_pairs (1.5s)
`

func TestPartsDocument(t *testing.T) {
	list, err := outcomes(strings.NewReader(said), "6.18")
	if err != nil {
		t.Fatal(err)
	}
	text := partsDocument(list, tested())
	for _, want := range []string{
		"| `bridge` | ipv4 | ✓ | – | ✓ | ✗ | – | 6.18 |\n| `bridge` | ipv6 | ✓ | – | ✓ | ✗ | – | 6.18 |\n",
		"| `cni(plugin=flannel)` | ipv4 | – | – | – | – | ✓ | 6.18 |\n", "| `cni(plugin=tap)` | ipv6 |",
		"| `y(rules=3)` | `nat(hairpin=true)` | ipv6 | ✓ | – | – | – | – | 6.18 |\n",
		"2026-11-25, nettoll v1-2-gabc.\n", "unless `antispoof=true`", "No link around is tried with `host` and `nat`",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "| `cni(plugin=flannel)` | ipv6 |") {
		t.Errorf("Flannel has lines of IPv6:\n%s", text)
	}
	if strings.Contains(text, "`z`") {
		t.Errorf("a part of which nothing runs has lines:\n%s", text)
	}
}

// Sections without new output stay as they are.
func TestSections(t *testing.T) {
	file, output := filepath.Join(t.TempDir(), "parts.md"), filepath.Join(t.TempDir(), "output")
	const suites, runtimes, pairs = "# Parts\n\nsuites\n", "\n## Runtimes\n\nold\n", "\n## Tunnels on encryptions\n\npairs\n"
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, suites+runtimes+pairs)
	write(output, "--- PASS: TestNetworksOfRuntimes/bridge@netns (0.15s)\n")
	if err := parts(file, []string{"6.18=" + output}, tested()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if text := string(got); err != nil || !strings.HasPrefix(text, suites+runtimesTitle) ||
		!strings.HasSuffix(text, pairs) || strings.Contains(text, "old") || !strings.Contains(text, "| `bridge` | ✓ | 6.18 |") {
		t.Errorf("%v\n%s", err, text)
	}
	write(output, "nothing")
	if err := parts(file, []string{"6.18=" + output}, tested()); err == nil {
		t.Error("of nothing there is a document")
	}
}

func TestLabsDocument(t *testing.T) {
	list, err := labs(strings.NewReader(`
    --- PASS: TestNetworksOfRuntimes/bridge@netns (0.15s)
    --- SKIP: TestNetworksOfRuntimes/x(mode=l2)@netns (0.15s)
    --- FAIL: TestNetworksOfRuntimes/bridge@oci(command=crun) (2.15s)
    --- PASS: TestNetworksOfRuntimes/bridge(by=lxc)@lxc (2.15s)
`), "6.18")
	if err != nil {
		t.Fatal(err)
	}
	guest, err := labs(strings.NewReader("guest: cmd/nettoll: PASS: TestNetworksOfRuntimes/x(mode=l2)@netns (0.15s)\n"), "6.12")
	if err != nil {
		t.Fatal(err)
	}
	text := labsDocument(append(list, guest...), tested())
	if want := `
| network | ` + "`netns` | `oci(command=crun)` | `lxc`" + ` | kernel |
| --- | --- | --- | --- | --- |
| ` + "`bridge`" + ` | ✓ | ✗ | – | 6.18 |
| ` + "`bridge(by=lxc)`" + ` | – | – | ✓ | 6.18 |
| ` + "`x(mode=l2)`" + ` | ✓ | – | – | 6.12 |
`; !strings.HasSuffix(text, want) {
		t.Errorf("want at its end %s\ngot\n%s", want, text)
	}
}

func TestPairsDocument(t *testing.T) {
	list, err := pairs(strings.NewReader(`
        vxlan(outer=ipv6)+x(impl=embedded,outer=ipv6)/bridge, ipv6 on ipv6 | MTU 1350 | passed, 6.7 s
guest:    vxlan(outer=ipv6)+x(impl=embedded,outer=ipv6)/ebpf, ipv6 on ipv6 | MTU 1350 | failed, 6.7 s
        vxlan+x(impl=kernel)/ebpf, ipv4 on ipv4 | MTU 0 | refused: make links of type "x": not supported here
`), "6.18")
	if err != nil {
		t.Fatal(err)
	}
	const guests = "| `gre+y` | ipv4 on ipv4 | 1414 | ✓ | – | – | 6.12 (guest) |\n"
	text := pairsDocument(list, tested(), guests+"| `gre+x` | ipv4 on ipv4 | 1414 | ✓ | – | – | 6.18 |\n")
	want := guests + "| `vxlan+x(impl=embedded)` | ipv6 on ipv6 | 1350 | ✓ | – | ✗ | 6.18 |\n"
	if !strings.HasSuffix(text, "| --- |\n"+want) {
		t.Errorf("want the lines\n%sin\n%s", want, text)
	}
	if again := pairsDocument(list, tested(), text); again != text {
		t.Errorf("the same output once more changes it: %s", again)
	}
}

// TestPartsCurrent checks that docs/parts.md has every network, filter and runtime, and no failure. `make parts` writes the
// page.
func TestPartsCurrent(t *testing.T) {
	data, err := os.ReadFile("../../docs/parts.md")
	if err != nil {
		t.Fatal(err)
	}
	c := catalogue.New()
	var names []string
	for _, n := range stack.PartsOf[network.Network](c.Kinds) {
		names = append(names, n.Describe().Name)
	}
	for _, f := range stack.PartsOf[filter.Filter](c.Kinds) {
		names = append(names, f.Describe().Name)
	}
	for _, r := range stack.PartsOf[runtime.Populated](c.Kinds) {
		names = append(names, r.Describe().Name)
	}
	for _, name := range names {
		if !strings.Contains(string(data), "| `"+name+"`") && !strings.Contains(string(data), "| `"+name+"(") {
			t.Errorf("docs/parts.md says nothing of %s (make parts writes it)", name)
		}
	}
	if strings.Contains(string(data), failed) {
		t.Error("docs/parts.md holds what failed")
	}
}
