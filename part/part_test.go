package part_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/part"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in, name string
		given    map[string]string
	}{
		{"udp-rr", "udp-rr", map[string]string{}},
		{"udp-rr(mode=spin)", "udp-rr", map[string]string{"mode": "spin"}},
		{"udp-rr( payload = 1KiB , mode=wait)", "udp-rr", map[string]string{"payload": "1KiB", "mode": "wait"}},
	} {
		name, given, err := part.Parse("workload", c.in)
		if err != nil || name != c.name || cmp.Diff(c.given, given) != "" {
			t.Errorf("%q: %q, %v, %v", c.in, name, given, err)
		}
	}
	for _, bad := range []string{"", "a b", "(x=1)", "a(", "a)", "a(x)", "a(x=)", "a(=1)", "a(x=1,x=2)", "a(x=1)b", "a((x=1))", "a=b"} {
		if name, given, err := part.Parse("workload", bad); err == nil {
			t.Errorf("%q: %q, %v and no error", bad, name, given)
		}
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int{"0": 0, "64": 64, "64B": 64, "2kB": 2000, "2KiB": 2048, "1MB": 1000000, "1MiB": 1 << 20} {
		if got, err := part.ParseSize(in); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "B", "-1", "1.5", "64b", "2 kB", "9999999999999", "2000MiB"} {
		if got, err := part.ParseSize(bad); err == nil {
			t.Errorf("%q: %d and no error", bad, got)
		}
	}
}

// FuzzParse: an error or a name, never both, never a panic; what was read names itself.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"udp-rr", "udp-rr(payload=64,mode=wait)", "a(b=c", "()", "a(=)", "µ(x=1)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, given, err := part.Parse("workload", s)
		if (err == nil) == (name == "") {
			t.Fatalf("%q: name %q and error %v", s, name, err)
		}
		for k, v := range given {
			if k == "" || v == "" {
				t.Fatalf("%q: parameter %q=%q", s, k, v)
			}
		}
	})
}
