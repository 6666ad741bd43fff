package part_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

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
		{`c(source="a -c {b}, (d)",figure='x: (\d+\.?)')`, "c", map[string]string{
			"source": "a -c {b}, (d)", "figure": `x: (\d+\.?)`,
		}},
		{`c(a= "say \"no\" to \d and \\" , b=it's)`, "c", map[string]string{"a": `say "no" to \d and \`, "b": "it's"}},
		{`c(a='=(,)')`, "c", map[string]string{"a": "=(,)"}},
		{`c(a=x='y')`, "c", map[string]string{"a": "x='y'"}},
		{"c(a=\t\"x,y\"\t,\tb\t=\t1)", "c", map[string]string{"a": "x,y", "b": "1"}},
		{`c(a="\d\\" )`, "c", map[string]string{"a": `\d\`}},
	} {
		name, given, err := part.Parse("workload", c.in)
		if err != nil || name != c.name || cmp.Diff(c.given, given) != "" {
			t.Errorf("%q: %q, %v, %v", c.in, name, given, err)
		}
	}
	for _, bad := range []string{
		"", "a b", "(x=1)", "a(", "a)", "a(x)", "a(x=)", "a(=1)", "a(x=1,x=2)", "a(x=1)b", "a((x=1))", "a=b", `a(x="1)`,
		`a(x='1)`, `a(x="1"2)`, `a(x="")`, `a(x="\")`, `a(x="1",)`,
		"bridge(hairpin=\t\")", "bridge(hairpin=\t\"onX)", "bridge(hairpin=\t'on'X)", "a\u00a0)(x=1)",
	} {
		if name, given, err := part.Parse("workload", bad); err == nil {
			t.Errorf("%q: %q, %v and no error", bad, name, given)
		}
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int{
		"0": 0, "64": 64, "64B": 64, "2kB": 2000, "2KiB": 2048, "1MB": 1000000, "1MiB": 1 << 20,
	} {
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

func TestTexts(t *testing.T) {
	for d, want := range map[time.Duration]string{
		7 * 24 * time.Hour: "168h", 90 * time.Second: "1m30s", time.Minute: "1m", time.Hour + time.Second: "1h0m1s", 0: "0s",
		10 * time.Minute: "10m", 30 * time.Second: "30s", time.Millisecond: "1ms",
	} {
		if got := part.DurationText(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{
		0: "0 bytes", 999: "999 bytes", 1024: "1 KiB", 256 << 10: "256 KiB", 32 << 20: "32 MiB", 1500: "1.5 kB",
		10_000_000: "10 MB", 2_500_000_000: "2.5 GB",
	} {
		if got := part.SizeText(n); got != want {
			t.Errorf("%d bytes are written %q, want %q", n, got, want)
		}
	}
}

func TestParseRate(t *testing.T) {
	check := part.RateOr("max")
	for in, want := range map[string]string{
		"max": "max", "500/s": "500/s", "10k/s": "10000/s", "1.5M/s": "1500000/s", "0.5/s": "0.5/s", "1e3/s": "1000/s",
	} {
		got, err := check(in)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
		if again, err := check(got); err != nil || again != want {
			t.Errorf("%q, written as %q, is read as %q, %v", in, got, again, err)
		}
	}
	for _, bad := range []string{
		"", "10", "10k", "0/s", "-1/s", "k/s", "NaN/s", "Inf/s", "1T/s", "1e99/s", "10 k/s", "10kbit/s",
	} {
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

func TestParseBitRate(t *testing.T) {
	for given, want := range map[string]string{
		"500kbit/s": "500kbit/s", "500000bit/s": "500kbit/s", "0.05Gbit/s": "50Mbit/s", "1.5Mbit/s": "1500kbit/s",
		"1001bit/s": "1001bit/s", "2000Gbit/s": "", "10k/s": "", "bit/s": "",
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

// FuzzParse checks that Parse returns an error or a name, never both, and never panics. Parsing the id of the result,
// alone or in a list, gives the same result.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"udp-rr", "udp-rr(payload=64,mode=wait)", "a(b=c", "()", "a(=)", "µ(x=1)", `a(b="c,(\"\\",d='e)')`, "a(b=\t\")",
		"a(b=\t\"onX)", `a(b='"\',c="\\\"")`, `a(b=' ',c='=')`, `a(b= c"d )`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, given, err := part.Parse("workload", s)
		if (err == nil) == (name == "") {
			t.Fatalf("%q: name %q and error %v", s, name, err)
		}
		var list part.List
		for k, v := range given {
			if k == "" || v == "" {
				t.Fatalf("%q: parameter %q=%q", s, k, v)
			}
			list = append(list, part.Param{Name: k})
		}
		if err != nil {
			return
		}
		id := list.ID(name, given)
		if n, again, err := part.Parse("workload", id); err != nil || n != name || !maps.Equal(again, given) {
			t.Fatalf("%q is %s with %q; its id %q is read as %s with %q (%v)", s, name, given, id, n, again, err)
		}
		for _, one := range []string{s, id} {
			if list := part.Split(one + "," + one); !slices.Equal(list, []string{one, one}) {
				t.Fatalf("%q twice is split into %q", one, list)
			}
		}
	})
}

func TestParseLists(t *testing.T) {
	for in, want := range map[string]map[string][]string{
		"a":                         {},
		"a(x=1)":                    {"x": {"1"}},
		"a(x=[10%, 50%],y=2)":       {"x": {"10%", "50%"}, "y": {"2"}},
		"a( x = [ 1 ] , y=[2,3] )":  {"x": {"1"}, "y": {"2", "3"}},
		`a(x=["1,2",'(]'])`:         {"x": {"1,2", "(]"}},
		`a(x="[1,2]")`:              {"x": {"[1,2]"}},
		"a(x=1[2)":                  {"x": {"1[2"}},
		`a(x=[it's, "say \"no\""])`: {"x": {"it's", `say "no"`}},
	} {
		name, given, err := part.ParseLists("workload", in)
		if err != nil || name != "a" || cmp.Diff(want, given) != "" {
			t.Errorf("%q: %q, %v, %v", in, name, given, err)
		}
		if list := part.Split(in + ",b"); len(list) != 2 || list[0] != in {
			t.Errorf("%q,b is cut into %q", in, list)
		}
	}
	for _, bad := range []string{
		"a(x=[1,2)", "a(x=[1,2", "a(x=[])", "a(x=[1,])", "a(x=[,1])", "a(x=[1]2)", "a(x=[[1]])", "a(x=[(1)])", `a(x=["1)`,
		`a(x=["1"2])`, "a(x=[1],x=[2])",
	} {
		if name, given, err := part.ParseLists("workload", bad); err == nil {
			t.Errorf("%q: %q, %v and no error", bad, name, given)
		}
	}
	if _, given, err := part.Parse("workload", "a(x=[1,2])"); err == nil || !strings.Contains(err.Error(), "x lists 2 values (valid here: one)") {
		t.Errorf("a list for one value: %v, %v", given, err)
	}
}

// A switch accepts all YAML booleans, whichever words are its values.
func TestSwitches(t *testing.T) {
	for _, values := range [][]string{{"true", "false"}, {"on", "off"}, {"auto", "on", "off"}, {"all", "off", "on"}} {
		p := part.Param{Values: values}
		is := func(word string) bool { return slices.Contains(values, word) }
		yes, no := "on", "off"
		if is("true") {
			yes, no = "true", "false"
		}
		for _, word := range []string{"true", "True", "TRUE", "on", "On", "yes", "Yes"} {
			if got, err := p.Value(word); err != nil || got != yes {
				t.Errorf("%v: %s is %q, %v", values, word, got, err)
			}
		}
		for _, word := range []string{"false", "FALSE", "off", "OFF", "no", "No"} {
			if got, err := p.Value(word); err != nil || got != no {
				t.Errorf("%v: %s is %q, %v", values, word, got, err)
			}
		}
	}
	if got, err := (part.Param{Values: []string{"wait", "spin"}}).Value("true"); err == nil {
		t.Errorf("true is %q", got)
	}
}

func TestMeant(t *testing.T) {
	known := []string{"udp-rr", "ping", "udp-rate", "tcp-stream", "dns"}
	for word, want := range map[string]string{
		"udp": "; did you mean udp-rr or udp-rate?", "tcp": "; did you mean tcp-stream?", "pong": "; did you mean ping?",
		"quic": "", "": "",
	} {
		if got := part.Meant(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	near := func() []part.Near { return []part.Near{{Names: []string{"cilium"}, Why: "because"}} }
	if got := part.Nearest("Cilium", "ebpf", near); got != "; the nearest is ebpf: because" {
		t.Error(got)
	}
	if got := part.Nearest("calico", "ebpf", near) + part.Nearest("cilium", "ebpf", nil); got != "" {
		t.Error(got)
	}
}

// The error about an invalid value includes the reason, if there is one.
func TestWhy(t *testing.T) {
	p := part.Param{Values: []string{"oak"}, Why: func(s string) string {
		if s == "balsa" {
			return "it breaks"
		}
		return ""
	}}
	for value, want := range map[string]string{
		"balsa": `invalid value "balsa": it breaks (valid: oak)`, "elm": `invalid value "elm" (valid: oak)`,
	} {
		if _, err := p.Value(value); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
}
