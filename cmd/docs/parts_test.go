package main

import (
	"os"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
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
guest: github.com/x/network/z: SKIP: TestConformance/z/packets,_1_hosts,_1_pairs (1.5s)
`

func TestPartsDocument(t *testing.T) {
	list, err := outcomes(strings.NewReader(said), "6.18")
	if err != nil {
		t.Fatal(err)
	}
	text, err := partsDocument(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `bridge` | ipv4 | ✓ | – | ✓ | ✗ | – | 6.18 |\n| `bridge` | ipv6 | ✓ | – | ✓ | ✗ | – | 6.18 |\n",
		"| `y(rules=3)` | `nat(hairpin=true)` | ipv6 | ✓ | – | – | – | – | 6.18 |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "`z`") {
		t.Errorf("a part of which nothing runs has lines:\n%s", text)
	}
	if _, err := partsDocument(nil); err == nil {
		t.Error("of nothing there is a document")
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
	text := pairsDocument(list)
	if want := "| `vxlan+x(impl=embedded)` | ipv6 on ipv6 | 1350 | ✓ | – | ✗ | 6.18 |\n"; !strings.HasSuffix(text, want) ||
		strings.Count(text, "\n| `") != 1 {
		t.Errorf("want one line, %q, in\n%s", want, text)
	}
}

// TestPartsCurrent checks that docs/parts.md has every network and filter, and no failure. `make parts` writes the
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
	for _, name := range names {
		if !strings.Contains(string(data), "| `"+name+"`") && !strings.Contains(string(data), "| `"+name+"(") {
			t.Errorf("docs/parts.md says nothing of %s (make parts writes it)", name)
		}
	}
	if strings.Contains(string(data), failed) {
		t.Error("docs/parts.md holds what failed")
	}
}
