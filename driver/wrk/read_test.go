package wrk

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

// Output of wrk 4.1.0 with --latency for nginx and its page.
const page = `Running 1s test @ http://127.0.0.1:8123/page
  1 threads and 50 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   376.85us   46.26us   1.26ms   87.68%
    Req/Sec   131.89k     0.95k  133.74k    80.00%
  Latency Distribution
     50%  373.00us
     75%  390.00us
     90%  413.00us
     99%  519.00us
  130702 requests in 1.00s, 102.46MB read
Requests/sec: 130632.63
Transfer/sec:    102.41MB
`

// Output for a page that does not exist.
const missing = `Running 1s test @ http://127.0.0.1:8123/nothing
  1 threads and 50 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.05ms    1.96ms  23.10ms   92.58%
    Req/Sec    62.13k     7.30k   73.60k    70.00%
  Latency Distribution
     50%  487.00us
     75%    0.94ms
     90%    2.37ms
     99%   10.03ms
  61989 requests in 1.01s, 17.38MB read
  Non-2xx or 3xx responses: 61989
Requests/sec:  61406.86
Transfer/sec:     17.22MB
`

// Output for a server that is killed during the run.
const killed = `Running 1s test @ http://127.0.0.1:8123/page
  1 threads and 5 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   320.86us  779.92us   7.93ms   91.94%
    Req/Sec    32.67k     2.80k   35.21k    80.00%
  Latency Distribution
     50%   61.00us
     75%  169.00us
     90%  723.00us
     99%    4.09ms
  16304 requests in 1.01s, 12.78MB read
  Socket errors: connect 0, read 5, write 31845, timeout 0
Requests/sec:  16155.79
Transfer/sec:     12.66MB
`

// Output for a server that does not answer.
const silent = `Running 1s test @ http://127.0.0.1:8124/page
  1 threads and 5 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     0.00us    0.00us   0.00us    -nan%
    Req/Sec     0.00      0.00     0.00      -nan%
  Latency Distribution
     50%    0.00us
     75%    0.00us
     90%    0.00us
     99%    0.00us
  0 requests in 1.02s, 0.00B read
Requests/sec:      0.00
Transfer/sec:       0.00B
`

func TestRead(t *testing.T) {
	one := traffic.Sample{
		Sent: 130702, Received: 130702, Total: 130702, Window: 1000531031, Span: 1000531031,
		Foreign: traffic.Foreign{Mean: 376850, Median: 373000},
	}
	some := one
	some.Received, some.Errors = 130700, 2
	slow := one
	slow.Foreign = traffic.Foreign{Mean: 1.2e9, Median: 90e9}
	late := one
	late.Doubt = "some answers took more than 2 s: wrk excludes them from latency (driver=nettoll counts them)"
	for _, tt := range []struct {
		name, text string
		want       traffic.Sample
		err        string
	}{
		{"a page", page, one, ""},
		{"some errors", strings.Replace(page, "Requests/sec", "  Non-2xx or 3xx responses: 2\nRequests/sec", 1), some, ""},
		{"a slow one", strings.NewReplacer("376.85us ", "  1.20s ", "373.00us", "  1.50m").Replace(page), slow, ""},
		{"late answers", strings.Replace(page, "Requests/sec",
			"  Socket errors: connect 0, read 0, write 0, timeout 3\nRequests/sec", 1), late, ""},
		{"errors alone", missing, traffic.Sample{}, "all with status 400 or above"},
		{"killed", killed, traffic.Sample{}, "had errors of its connections: connect 0, read 5, write 31845"},
		{
			"the server hangs after a while", strings.Replace(page, "131.89k", "196.89k", 1),
			traffic.Sample{},
			"got 196890 answers per second while the server answered, but 130633 over the whole trial: the server stalled",
		},
		{"the server hangs for a while", strings.Replace(page, "131.89k", "191.89k", 1), one, ""},
		{"another unit of rates", strings.Replace(page, "131.89k", "131.89x", 1), traffic.Sample{}, "did not print its rate of 100 ms"},
		{"silent", silent, traffic.Sample{}, "got no answer"},
		{"empty", "", traffic.Sample{}, "did not print its requests"},
		{"another program", "#!/bin/sh\n", traffic.Sample{}, "did not print its requests"},
		{"cut off", page[:strings.Index(page, "Requests/sec")], traffic.Sample{}, "did not print its rate"},
		{"without --latency", strings.Replace(page, "     50%  373.00us\n", "", 1), traffic.Sample{}, "did not print its median"},
		{"another unit", strings.Replace(page, "373.00us", "373.00ns", 1), traffic.Sample{}, "did not print its median"},
		{"no number", strings.Replace(page, "376.85us", "-nanus", 1), traffic.Sample{}, "did not print its mean"},
		{
			"more errors than requests",
			strings.Replace(page, "Requests/sec", "  Non-2xx or 3xx responses: 130703\nRequests/sec", 1),
			traffic.Sample{},
			"of 130702 requests failed",
		},
		{
			"errors of no number", strings.Replace(page, "Requests/sec", "  Non-2xx or 3xx responses: many\nRequests/sec", 1),
			traffic.Sample{},
			"did not print its failed requests",
		},
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
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{page, missing, killed, silent} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s traffic.Sample
		if read(program.Said{Stdout: strings.NewReader(text)}, &s, nil) != nil {
			return
		}
		if s.Sent < 1 || s.Received < 1 || s.Errors < 0 || s.Received+s.Errors != s.Sent || s.Window < 1 ||
			!(s.Foreign.Mean >= 0) || !(s.Foreign.Median >= 0) {
			t.Errorf("%q: %+v", text, s)
		}
	})
}

// Serves refuses what wrk does not support and lists what it supports.
func TestServes(t *testing.T) {
	w := workload.Description{Name: "http", Params: part.List{
		{Name: "payload", Default: "615"},
		{Name: "connection", Default: "keep-alive"},
		{Name: "clients", Default: "50"},
		{Name: "server", Default: "embedded"},
		{Name: "rate", Default: "closed"},
	}}
	for _, tt := range []struct {
		given part.Params
		want  string
	}{
		{part.Params{"payload": "1048576", "clients": "7", "server": "nginx"}, ""},
		{part.Params{"connection": "new"}, "valid: connection keep-alive"},
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
