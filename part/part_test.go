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
		{`c(source="a -c {b}, (d)",figure='x: (\d+\.?)')`, "c", map[string]string{"source": "a -c {b}, (d)", "figure": `x: (\d+\.?)`}},
		{`c(a= "say \"no\" to \d and \\" , b=it's)`, "c", map[string]string{"a": `say "no" to \d and \`, "b": "it's"}},
		{`c(a='=(,)')`, "c", map[string]string{"a": "=(,)"}},
		{`c(a=x='y')`, "c", map[string]string{"a": "x='y'"}},
	} {
		name, given, err := part.Parse("workload", c.in)
		if err != nil || name != c.name || cmp.Diff(c.given, given) != "" {
			t.Errorf("%q: %q, %v, %v", c.in, name, given, err)
		}
	}
	for _, bad := range []string{"", "a b", "(x=1)", "a(", "a)", "a(x)", "a(x=)", "a(=1)", "a(x=1,x=2)", "a(x=1)b", "a((x=1))", "a=b", `a(x="1)`, `a(x='1)`, `a(x="1"2)`, `a(x="")`, `a(x="\")`, `a(x="1",)`} {
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

func TestParseRate(t *testing.T) {
	check := part.RateOr("max")
	for in, want := range map[string]string{"max": "max", "500/s": "500/s", "10k/s": "10000/s", "1.5M/s": "1500000/s", "0.5/s": "0.5/s", "1e3/s": "1000/s"} {
		got, err := check(in)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
		if again, err := check(got); err != nil || again != want {
			t.Errorf("%q, written as %q, is read as %q, %v", in, got, again, err)
		}
	}
	for _, bad := range []string{"", "10", "10k", "0/s", "-1/s", "k/s", "NaN/s", "Inf/s", "1T/s", "1e99/s", "10 k/s", "10kbit/s"} {
		if got, err := check(bad); err == nil {
			t.Errorf("%q: %q and no error", bad, got)
		}
	}
	if got := (part.Params{"rate": "10000/s"}).Rate("rate"); got != 10000 {
		t.Errorf("a rate of %v, want 10000", got)
	}
	if got := (part.Params{"rate": "max"}).Rate("rate"); got != 0 {
		t.Errorf("max is a rate of %v, want 0", got)
	}
}

// FuzzParse: an error or a name, never both, never a panic; what was read names itself.
func TestParseBitRate(t *testing.T) {
	for given, want := range map[string]string{
		"500kbit/s": "500kbit/s", "500000bit/s": "500kbit/s", "0.05Gbit/s": "50Mbit/s", "1.5Mbit/s": "1500kbit/s", "1001bit/s": "1001bit/s", "2000Gbit/s": "", "10k/s": "", "bit/s": "",
		"0bit/s": "", "-1bit/s": "", "NaNbit/s": "", "auto": "auto",
	} {
		got, err := part.BitRateOr("auto")(given)
		if (err != nil) != (want == "") || got != want {
			t.Errorf("%q is written %q (%v), want %q", given, got, err, want)
		}
		if err != nil {
			continue
		}
		if again, err := part.BitRateOr("auto")(got); err != nil || again != got {
			t.Errorf("%q is written %q the second time (%v)", got, again, err)
		}
	}
	if _, err := part.BitRateOr("")(""); err == nil {
		t.Error("nothing is a bit rate")
	}
	if x := (part.Params{"rate": "500kbit/s"}).BitRate("rate"); x != 5e5 {
		t.Errorf("500kbit/s are %g bit/s", x)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"udp-rr", "udp-rr(payload=64,mode=wait)", "a(b=c", "()", "a(=)", "µ(x=1)", `a(b="c,(\"\\",d='e)')`} {
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
