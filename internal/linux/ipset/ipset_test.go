package ipset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sets() []Set {
	return []Set{
		{Name: "four", Entries: []string{
			"10.0.0.1,udp:7,10.0.0.2", "10.0.0.1,tcp:7,10.0.0.2", "10.0.0.1,icmp:echo-request,10.0.0.2",
			"10.0.0.2,icmp:echo-reply,10.0.0.1",
		}},
		{Name: "six", V6: true, Entries: []string{
			"fd00::1,udp:7,fd00::2", "fd00::1,icmpv6:echo-request,fd00::2", "fd00::2,icmpv6:echo-reply,fd00::1",
		}},
		{Name: "none"},
	}
}

func TestText(t *testing.T) {
	many := Set{Name: "many", Entries: make([]string, 100_000)}
	want := `create four hash:ip,port,ip family inet hashsize 1024 maxelem 65536
create six hash:ip,port,ip family inet6 hashsize 1024 maxelem 65536
create none hash:ip,port,ip family inet hashsize 1024 maxelem 65536
add four 10.0.0.1,udp:7,10.0.0.2
add four 10.0.0.1,tcp:7,10.0.0.2
add four 10.0.0.1,icmp:echo-request,10.0.0.2
add four 10.0.0.2,icmp:echo-reply,10.0.0.1
add six fd00::1,udp:7,fd00::2
add six fd00::1,icmpv6:echo-request,fd00::2
add six fd00::2,icmpv6:echo-reply,fd00::1
`
	if diff := cmp.Diff(want, text(sets())); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if got, _, _ := strings.Cut(text([]Set{many}),
		"\n"); got != "create many hash:ip,port,ip family inet hashsize 131072 maxelem 104096" {
		t.Errorf("a large set begins with %q", got)
	}
}

func TestParseMemory(t *testing.T) {
	const out = "Name: a\nType: hash:ip,port,ip\nRevision: 6\nHeader: family inet hashsize 1024 maxelem 65536\nSize in " +
		"memory: 264\nReferences: 0\nNumber of entries: 1\n"
	if n, err := parseMemory(out); err != nil || n != 264+1024*pointer {
		t.Errorf("parseMemory = %d, %v", n, err)
	}
	for _, bad := range []string{
		"", "Size in memory:", "Size in memory: 264", "hashsize 1024 Size in memory: x", "hashsize",
	} {
		if n, err := parseMemory(bad); err == nil {
			t.Errorf("parseMemory(%q) = %d, want an error", bad, n)
		}
	}
}

func TestNormal(t *testing.T) {
	for _, c := range []struct{ entry, want string }{
		{"fd00::1,ipv6-icmp:echo-reply,fd00::2", "fd00::1,icmpv6:echo-reply,fd00::2"},
		{"fd00::1,ipv6-icmp:128/0,fd00::2", "fd00::1,icmpv6:echo-request,fd00::2"},
		{"10.0.0.1,icmp:0/0,10.0.0.2", "10.0.0.1,icmp:echo-reply,10.0.0.2"},
		{"10.0.0.1,17:9,10.0.0.2", "10.0.0.1,udp:9,10.0.0.2"},
		{"10.0.0.1,udp:9,10.0.0.2", "10.0.0.1,udp:9,10.0.0.2"},
		{"10.0.0.1,9,10.0.0.2", "10.0.0.1,9,10.0.0.2"},
		{"10.0.0.1", "10.0.0.1"},
	} {
		if got := normal(c.entry); got != c.want {
			t.Errorf("normal(%q) = %q, want %q", c.entry, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("create a hash:ip,port,ip family inet hashsize 1024\nadd a 10.0.0.1,icmp:8/0,10.0.0.2\n")
	f.Add("create a hash:ip family\nadd b 10.0.0.1\n")
	f.Fuzz(func(t *testing.T, text string) {
		kind, entries, err := Parse(strings.NewReader(text), "a")
		if (err == nil) == (kind == "") {
			t.Errorf("Parse = %q, %v", kind, err)
		}
		for _, e := range entries {
			if normal(e) != e && normal(normal(e)) != normal(e) {
				t.Errorf("normal(%q) = %q, and of that %q", e, normal(e), normal(normal(e)))
			}
		}
		_ = Set{Name: "a", Entries: entries}.compare(kind, entries)
	})
}
