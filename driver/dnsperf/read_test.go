package dnsperf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Output of dnsperf 2.10.0 over UDP.
const datagrams = `DNS Performance Testing Tool
Version 2.10.0

[Status] Command line: dnsperf -m udp -s 127.0.0.1 -p 5353 -d /proc/self/fd/3 -c 4 -q 32 -l 1
[Status] Sending queries (to 127.0.0.1:5353)
[Status] Started at: Sat Nov 21 19:03:28 2026
[Status] Stopping after 1.000000 seconds
[Status] Testing complete (time limit)

Statistics:

  Queries sent:         271507
  Queries completed:    271501 (100.00%)
  Queries lost:         6 (0.00%)

  Response codes:       NOERROR 271501 (100.00%)
  Average packet size:  request 52, response 68
  Run time (s):         1.000431
  Queries per second:   271384.032882

  Average Latency (s):  0.000105 (min 0.000011, max 0.019581)
  Latency StdDev (s):   0.000048

`

// Output over TCP.
const stream = `DNS Performance Testing Tool
Version 2.10.0

[Status] Testing complete (time limit)

Statistics:

  Queries sent:         1590
  Queries completed:    1590 (100.00%)
  Queries lost:         0 (0.00%)

  Response codes:       NOERROR 1588 (99.87%), NXDOMAIN 2 (0.13%)
  Average packet size:  request 52, response 68
  Run time (s):         1.000316
  Queries per second:   1589.497719

  Average Latency (s):  0.000018 (min 0.000007, max 0.000445)
  Latency StdDev (s):   0.000021

Connection Statistics:

  Reconnections:        0

  Average Latency (s):  0.000851 (min 0.000386, max 0.001317)
  Latency StdDev (s):   0.000658

`

// Output if the server does not answer, and if it refuses connections.
const silent = `
Statistics:

  Queries sent:         200
  Queries completed:    0 (0.00%)
  Queries lost:         200 (100.00%)

  Response codes:       
  Average packet size:  request 21, response 0
  Run time (s):         1.000107
  Queries per second:   0.000000

  Average Latency (s):  0.000000 (min 0.000000, max 0.000000)

`

func TestRead(t *testing.T) {
	one := traffic.Sample{
		Sent: 271507, Received: 271501, Total: 271507, Window: 1000431000, Span: 1000431000,
		Foreign: traffic.Foreign{Mean: 105000},
	}
	two := traffic.Sample{
		Sent: 1590, Received: 1588, Errors: 2, Total: 1590, Window: 1000316000, Span: 1000316000,
		Foreign: traffic.Foreign{Mean: 18000},
	}
	again, cut := two, one
	again.Doubt = "dnsperf reconnected in the middle of a trial: use driver=nettoll if that is often so"
	cut.Sent--
	for _, tt := range []struct {
		name, text string
		want       traffic.Sample
		err        string
	}{
		{"datagrams", datagrams, one, ""},
		{"a stream", stream, two, ""},
		{"connected anew", strings.Replace(stream, "Reconnections:        0", "Reconnections:        3", 1), again, ""},
		{"interrupted", strings.Replace(datagrams, "lost:         6 (0.00%)",
			"lost:         5 (0.00%)\n  Queries interrupted:  1 (0.00%)", 1), cut, ""},
		{"nobody answers", silent, traffic.Sample{}, "got no answer"},
		{
			"nobody is there", strings.ReplaceAll(silent, " 200 ", " 0 "),
			traffic.Sample{},
			"200 queries sent, 0 completed, 0 lost",
		},
		{
			"nothing is sent", strings.NewReplacer("200\n", "0\n", "200 (100.00%)", "0 (0.00%)").Replace(silent),
			traffic.Sample{},
			"sent no query",
		},
		{
			"errors alone", strings.Replace(stream, "NOERROR 1588 (99.87%), NXDOMAIN 2", "REFUSED 1590", 1),
			traffic.Sample{},
			"only answers that report a failure",
		},
		{"empty", "", traffic.Sample{}, `did not print its "Queries sent"`},
		{"another program", "#!/bin/sh\nElapsed: NaN", traffic.Sample{}, `did not print its "Queries sent"`},
		{"cut off", datagrams[:strings.Index(datagrams, "  Run time")], traffic.Sample{}, `did not print its "Run time (s)"`},
		{"no number", strings.Replace(datagrams, "271507", "many", 1), traffic.Sample{}, `"many" is not a number`},
		{"no time", strings.Replace(datagrams, "1.000431", "nan", 1), traffic.Sample{}, `"nan" is not a time`},
		{"a negative one", strings.Replace(datagrams, "0.000105", "-0.00010", 1), traffic.Sample{}, "is not a time"},
		{"for no time", strings.Replace(datagrams, "1.000431", "0.000000", 1), traffic.Sample{}, "reported a run time of 0"},
		{"too long", strings.Replace(datagrams, "1.000431", "99999999.000000", 1), traffic.Sample{}, "is too long"},
		{
			"sums that are none", strings.Replace(datagrams, "271501 (100.00%)\n  Q", "271502 (100.00%)\n  Q", 1),
			traffic.Sample{},
			"271502 completed, 6 lost",
		},
		{
			"fewer codes than answers", strings.Replace(stream, "NXDOMAIN 2", "NXDOMAIN 1", 1),
			traffic.Sample{},
			"1589 response codes for 1590 answers",
		},
		{"other codes", strings.Replace(stream, "NXDOMAIN 2", "what 2", 1), traffic.Sample{}, "printed the invalid response codes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got traffic.Sample
			err := read(program.Said{Stdout: strings.NewReader(tt.text)}, &got, nil)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// The figures read from any output add up.
func FuzzRead(f *testing.F) {
	for _, text := range []string{datagrams, stream, silent} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s traffic.Sample
		if err := read(program.Said{Stdout: strings.NewReader(text)}, &s, nil); err != nil {
			return
		}
		if s.Received <= 0 || s.Received+s.Errors > s.Sent || s.Sent > s.Total || s.Window <= 0 || s.Window != s.Span ||
			s.Foreign.Mean < 0 {
			t.Errorf("%q: %+v", text, s)
		}
	})
}

func TestServes(t *testing.T) {
	list := part.List{
		{Name: "transport", Default: "udp"},
		{Name: "clients", Default: "1"},
		{Name: "in-flight", Default: "1"},
		{Name: "rate", Default: "closed"},
		{Name: "arrivals", Default: "constant"},
		{Name: "edns", Default: "none"},
	}
	w := workload.Description{Name: "dns", Params: list}
	for given, want := range map[string]string{
		"": "with 1 queries in flight",
		"clients=4,in-flight=4": "with 16 queries in flight: it would sometimes stall (valid: 17 " +
			"or more",
		"clients=17":                      "",
		"in-flight=32,transport=tcp":      "",
		"in-flight=32,rate=1k/s":          "from when a query was sent, not from when it was due",
		"in-flight=32,edns=1232":          `with edns "1232" (valid: edns none)`,
		"in-flight=32,clients=3,edns=512": `with edns "512"`,
	} {
		p := part.Params{}
		for _, one := range list {
			p[one.Name] = one.Default
		}
		for one := range strings.SplitSeq(given, ",") {
			if name, value, ok := strings.Cut(one, "="); ok {
				p[name] = value
			}
		}
		err := (Driver{}).Serves(w, p)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", given, err, want)
		}
	}
}
