package redisbenchmark

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Output of redis-benchmark 7.0.15 with -q until it was ended, 1.3 s after its start.
const said = " \rGET: rps=0.0 (overall: -nan) avg_msec=-nan (overall: -nan)\r" +
	"                                                           \rGET: rps=125597.6 (overall: 125597.6) avg_msec=0.246 " +
	"(overall: 0.246)\r" +
	"                                                                      \rGET: rps=31140.0 (overall: 78463.1) " +
	"avg_msec=1.192 (overall: 0.433)\r" +
	"                                                                    \rGET: rps=45322.7 (overall: 67401.6) " +
	"avg_msec=0.521 (overall: 0.453)\r" +
	"                                                                    \rGET: rps=41488.0 (overall: 60936.1) " +
	"avg_msec=0.904 (overall: 0.530)\r" +
	"                                                                    \rGET: rps=45244.0 (overall: 57802.7) " +
	"avg_msec=0.645 (overall: 0.548)\r"

func TestRead(t *testing.T) {
	good := traffic.Sample{
		Sent: 60936, Received: 60936, Total: 72253, Window: 1e9, Span: 1.25e9,
		Foreign: traffic.Foreign{Mean: 530000},
	}
	change := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(said) }
	for _, tt := range []struct {
		name, text string
		seconds    int
		want       traffic.Sample
		err        string
	}{
		{"as it is", said, 1, good, ""},
		{"sets", change("GET", "SET"), 1, good, ""},
		{
			"its first report has figures",
			change("rps=0.0 (overall: -nan) avg_msec=-nan (overall: -nan)",
				"rps=3000.0 (overall: 3000.0) avg_msec=0.100 (overall: 0.100)"), 1, good, "",
		},
		{"a longer trial", said, 3, traffic.Sample{}, "made 5 reports in its trial instead of 12, one every 250 ms"},
		{"some are late", said[:strings.Index(said, "GET: rps=41488.0")], 1, traffic.Sample{
			Sent: 67402, Received: 67402, Total: 67402, Window: 1e9, Span: 1e9, Foreign: traffic.Foreign{Mean: 453000},
		}, ""},
		{"cut off", said[:len(said)/3], 1, traffic.Sample{}, "made 1 reports"},
		{"nothing", "", 1, traffic.Sample{}, "made 0 reports"},
		{"one report without an answer", change("rps=45244.0", "rps=0.0"), 1, good, ""},
		{
			"the server hangs", change("rps=45244.0", "rps=0.0", "rps=41488.0", "rps=0.0"), 1,
			traffic.Sample{},
			"got no answer in the last 500 ms",
		},
		{"no answers", change("60936.1", "0.0", "0.530", "-nan"), 1, traffic.Sample{}, `the invalid figure "-nan"`},
		{"none in the end", change("60936.1", "0.0", "0.530", "0.000"), 1, traffic.Sample{}, "figures: 0 answers"},
		{"too many", change("60936.1", "9999999999999.1"), 1, traffic.Sample{}, "the invalid figure"},
		{"no number", change("60936.1", "6.0936.1"), 1, traffic.Sample{}, `the invalid figure "6.0936.1"`},
		{
			"errors", said + "Error from server: OOM command not allowed when used memory > 'maxmemory'.\n", 1,
			traffic.Sample{},
			"OOM command not allowed",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got traffic.Sample
			err := read(program.Said{Seconds: tt.seconds, Stdout: strings.NewReader(tt.text)}, &got, nil)
			if tt.err != "" || err != nil {
				if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Any output gives possible figures or an error.
func FuzzRead(f *testing.F) {
	f.Add(said, 1)
	f.Add(strings.Repeat("SET: rps=1.0 (overall: 1.0) avg_msec=nan (overall: 1000.000)\r", 300), 60)
	f.Fuzz(func(t *testing.T, text string, seconds int) {
		seconds = 1 + seconds&63
		var s traffic.Sample
		if err := read(program.Said{Seconds: seconds, Stdout: strings.NewReader(text)}, &s, nil); err != nil {
			return
		}
		if s.Received < 1 || s.Sent != s.Received || s.Total < s.Sent || s.Window <= 0 || s.Span < s.Window ||
			!(s.Foreign.Mean > 0) {
			t.Errorf("%+v", s)
		}
		reason(strings.NewReader(text))
	})
}

// Serves refuses what redis-benchmark does not support and lists what it supports.
func TestServes(t *testing.T) {
	w := workload.Description{Name: "kv", Params: part.List{
		{Name: "payload", Default: "1024"},
		{Name: "operation", Default: "get"},
		{Name: "clients", Default: "50"},
		{Name: "pipeline", Default: "1"},
		{Name: "keys", Default: "auto"},
		{Name: "server", Default: "embedded"},
		{Name: "rate", Default: "closed"},
	}}
	for _, tt := range []struct {
		given part.Params
		want  string
	}{
		{part.Params{
			"payload": "524288", "operation": "set", "clients": "1", "pipeline": "10", "keys": "7",
			"server": "redis",
		}, ""},
		{part.Params{"operation": "mixed"}, "valid: operation get, set"},
		{part.Params{"clients": "1"}, "valid: clients or pipeline 2 or more"},
		{part.Params{"rate": "10/s"}, "valid: rate closed"},
	} {
		p := part.Params{}
		for _, param := range w.Params {
			p[param.Name] = param.Default
		}
		maps.Copy(p, tt.given)
		err := Driver{}.Serves(w, p)
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.given, err, tt.want)
		}
	}
}
