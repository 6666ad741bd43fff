package ping

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Output of ping of iputils 20221126.
const says = `PING 10.0.0.2 (10.0.0.2) from 10.0.0.1 : 56(84) bytes of data.
64 bytes from 10.0.0.2: icmp_seq=99 ttl=64 time=0.026 ms
64 bytes from 10.0.0.2: icmp_seq=100 ttl=64 time=0.020 ms
64 bytes from 10.0.0.2: icmp_seq=101 ttl=64 time=3.20 ms

--- 10.0.0.2 ping statistics ---
3 packets transmitted, 3 received, 0% packet loss, time 999ms
rtt min/avg/max/mdev = 0.018/0.080/21.675/0.443 ms, pipe 2, ipg/ewma 0.116/0.426 ms
`

func TestRead(t *testing.T) {
	change := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(says) }
	for _, tt := range []struct {
		name, text string
		want       traffic.Sample
		err        string
	}{
		{"as it is", says, traffic.Sample{Sent: 3, Received: 3, Total: 3, Window: 1e9, Span: 1e9}, ""},
		{"one on its way", change("3 packets", "4 packets"), traffic.Sample{
			Sent: 3, Received: 3, Total: 4, Window: 1e9, Span: 1e9,
		}, ""},
		{
			"two lost", change("3 packets", "5 packets"),
			traffic.Sample{Sent: 5, Received: 3, Total: 5, Window: 1e9, Span: 1e9},
			"",
		},
		{"a copy", change("time=3.20 ms\n",
			"time=3.20 ms\n64 bytes from 10.0.0.2: icmp_seq=101 ttl=64 time=3.40 ms (DUP!)\n"), traffic.Sample{
			Sent: 3, Received: 3, Total: 3, Window: 1e9, Span: 1e9,
		}, ""},
		{"short ones", change("0.026", "0.006", "0.020", "0.005"), traffic.Sample{
			Sent: 3, Received: 3, Total: 3, Window: 1e9, Span: 1e9,
			Doubt: "ping reports round trips in whole µs, a resolution coarser than 5 % of most of them: driver=nettoll has a finer one",
		}, ""},
		{"more answers than requests", change("3 received", "4 received"), traffic.Sample{}, "4 of 3 requests"},
		{
			"an answer that is not told", change("64 bytes from 10.0.0.2: icmp_seq=99 ttl=64 time=0.026 ms\n", ""),
			traffic.Sample{},
			"3 of 3 requests were answered, but printed 2 answers",
		},
		{"cut off", says[:strings.Index(says, "3.20")+2], traffic.Sample{}, "no time in ms"},
		{"no summary", says[:strings.Index(says, "---")], traffic.Sample{}, "did not print how many"},
		{"no number", change("0.020", "-nan"), traffic.Sample{}, "no time in ms"},
		{"none", "1 packets transmitted, 0 received, 100% packet loss, time 0ms\n", traffic.Sample{}, "got no answer"},
		{"nothing", "", traffic.Sample{}, "did not print how many"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got traffic.Sample
			r := traffic.NewRecorder()
			err := read(program.Said{Seconds: 1, Stdout: strings.NewReader(tt.text)}, &got, r)
			if tt.err != "" || err != nil {
				if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if r.Count != 3 || r.Max != 3200000 {
				t.Errorf("%d recorded, the longest %d", r.Count, r.Max)
			}
		})
	}
	if got := reason(strings.NewReader("PING\nFrom 10.0.0.1 icmp_seq=1 Destination Host Unreachable\n")); got != "From 10.0.0.1 icmp_seq=1 Destination Host Unreachable" {
		t.Errorf("reason %q", got)
	}
}

// Any output gives possible figures or an error.
func FuzzRead(f *testing.F) {
	f.Add(says)
	f.Add(" time=1e300 ms\n1 packets transmitted, 1 received")
	f.Fuzz(func(t *testing.T, text string) {
		var s traffic.Sample
		r := traffic.NewRecorder()
		if err := read(program.Said{Seconds: 1, Stdout: strings.NewReader(text)}, &s, r); err != nil {
			return
		}
		if s.Received <= 0 || s.Received > s.Sent || s.Sent > s.Total || s.Window <= 0 || r.Count != s.Received || r.Max < 0 {
			t.Errorf("%+v, %d recorded", s, r.Count)
		}
		reason(strings.NewReader(text))
	})
}

func TestServes(t *testing.T) {
	for _, tt := range []struct {
		workload string
		params   part.Params
		err      string
	}{
		{"ping", part.Params{"payload": "56", "interval": "10ms"}, ""},
		{"ping", part.Params{"payload": "24", "interval": "flood"}, ""},
		{
			"ping",
			part.Params{"payload": "56", "interval": "1.5ms"},
			"at an interval of 1.5ms (valid: whole milliseconds, or flood)",
		},
		{
			"ping",
			part.Params{"payload": "56", "interval": "20µs"},
			"at an interval of 20µs (valid: whole milliseconds, or flood)",
		},
		{"udp-rr", part.Params{}, `cannot drive workload "udp-rr" (valid: ping)`},
	} {
		err := Driver{}.Serves(workload.Description{Name: tt.workload}, tt.params)
		if (err != nil) != (tt.err != "") || err != nil && !strings.HasSuffix(err.Error(), tt.err) {
			t.Errorf("%s %v: %v, want %q", tt.workload, tt.params, err, tt.err)
		}
	}
}
