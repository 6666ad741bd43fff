package nuttcp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Output of nuttcp 6.1.2 for one second over a pair of veth (most intervals are left out).
const (
	streamSays = `nuttcp-t: v6.1.2: socket
nuttcp-t: buflen=131072 nstream=1 port=20001 mode=tcp host=10.0.0.2
nuttcp-t: connect=10.0.0.2 mss=1448 rtt_ms=0.035
nuttcp-r: v6.1.2: socket
nuttcp-r: reporting_interval=0.10
megabytes=164.2500 real_sec=0.10 rate_Mbps=13768.3754 retrans=0
megabytes=186.5000 real_sec=0.10 rate_Mbps=15648.0400 retrans=0
nuttcp-t: megabytes=1746.8750 real_seconds=1.00 rate_KBps=1788664.06 rate_Mbps=14652.7360
nuttcp-t: retrans=2
nuttcp-t: stats=cpu user=0.0 system=0.9 elapsed=0:01 cpu=91% memory=0i+0d-1000maxrss io=0+0pf swaps=108+108csw

nuttcp-r: megabytes=1746.8750 real_seconds=1.00 rate_KBps=1789338.59 rate_Mbps=14658.2617
nuttcp-r: megabytes=1746.8750 cpu_seconds=0.30 KB_per_cpu_second=5979488.96
`
	datagramsSay = `nuttcp-t: v6.1.2: socket
nuttcp-t: buflen=64 nstream=1 port=20001 mode=udp host=10.0.0.2
nuttcp-r: buflen=64 nstream=1 port=20001 mode=udp
megabytes=0.3525 real_sec=0.05 rate_Mbps=59.0482 drop=6136 pkt=11912 data_loss=51.51108 tx_megabytes=0.7271
nuttcp-t: megabytes=19.0006 real_seconds=1.00 rate_KBps=19455.55 rate_Mbps=159.3799
nuttcp-t: io_calls=311313 msec_per_call=0.00 calls_per_sec=311295.88

nuttcp-r: megabytes=14.3354 real_seconds=1.00 rate_KBps=14736.31 rate_Mbps=120.7198
nuttcp-r: drop=76435 pkt=311306 data_loss=24.55291
`
)

func TestRead(t *testing.T) {
	var got traffic.Sample
	if err := readDatagrams(program.Said{Seconds: 1, Stdout: strings.NewReader(datagramsSay)}, &got, nil); err != nil {
		t.Fatal(err)
	}
	want := traffic.Sample{
		Sent: 311306, Total: 311306, Window: 1000054709, Span: 1000054709,
		Foreign: traffic.Foreign{Peer: &traffic.Sample{Received: 234871, Total: 234871, Bytes: 15031756}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("datagrams (-want +got):\n%s", diff)
	}
	for _, reverse := range []bool{false, true} {
		got = traffic.Sample{}
		if err := readStream(reverse)(program.Said{Seconds: 1, Stdout: strings.NewReader(streamSays)}, &got,
			nil); err != nil {
			t.Fatal(err)
		}
		reader, writer := *got.Foreign.Peer, got
		if reverse {
			reader, writer = got, *got.Foreign.Peer
		}
		if got.Window != 999699001 || writer.Counts[traffic.CountResent] != 2 || reader.Bytes != 1831731200 ||
			len(reader.Series[traffic.SeriesDelivered]) != traffic.Slices+1 {
			t.Errorf("reverse %t: %+v, peer %+v", reverse, got, got.Foreign.Peer)
		}
		// After 0.2 s: the first two intervals.
		if at := reader.Series[traffic.SeriesDelivered][4]; at < 367*megabyte*1000/1048 || at > 351*megabyte {
			t.Errorf("reverse %t: %d bytes after a fifth of the time, want those of the first two intervals", reverse, at)
		}
		if last := reader.Series[traffic.SeriesDelivered][traffic.Slices]; last < reader.Bytes-1 {
			t.Errorf("reverse %t: %d of %d bytes in the end", reverse, last, reader.Bytes)
		}
	}
}

func TestRefused(t *testing.T) {
	change := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	for text, want := range map[string]string{
		"":      "did not print megabytes of its transmitter",
		"<html": "did not print megabytes of its transmitter",
		change(datagramsSay, "drop=76435 pkt=311306",
			"drop=76435 pkt=306"): "did not print how many",
		change(datagramsSay, "drop=76435 pkt=311306",
			""): "did not print how many",
		change(datagramsSay, "megabytes=19.0006 real_seconds=1.00",
			"megabytes=-1 real_seconds=1.00"): `invalid count "megabytes=-1"`,
		change(datagramsSay, "megabytes=19.0006 real_seconds=1.00",
			"megabytes=19 real_seconds=3.00"): "took 3 s, but its rate implies 1.00002",
		change(datagramsSay, "megabytes=19.0006 real_seconds=1.00 rate_KBps=19455.55",
			"megabytes=0 real_seconds=0"): "did not print rate_KBps",
	} {
		var s traffic.Sample
		if err := readDatagrams(program.Said{Seconds: 1, Stdout: strings.NewReader(text)}, &s, nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q", text, err, want)
		}
	}
	const refused = "nuttcp-t: v6.1.2: Error: connect: Connection refused\nerrno=111\nnuttcp-t: v6.1.2: socket\n"
	if got := reason(strings.NewReader(refused)); got != "Error: connect: Connection refused\nerrno=111" {
		t.Errorf("reason %q", got)
	}
}

// Any output gives possible figures or an error.
func FuzzRead(f *testing.F) {
	f.Add(streamSays)
	f.Add(datagramsSay)
	f.Add("nuttcp-r: megabytes=1e300 real_seconds=1e-9 rate_KBps=5\nmegabytes=5 real_sec=1e9")
	f.Fuzz(func(t *testing.T, text string) {
		for name, read := range map[string]func(program.Said, *traffic.Sample, *traffic.Recorder) error{
			"datagrams": readDatagrams, "stream": readStream(false), "reverse": readStream(true),
		} {
			var s traffic.Sample
			if err := read(program.Said{Seconds: 1, Stdout: strings.NewReader(text)}, &s, nil); err != nil {
				continue
			}
			p := s.Foreign.Peer
			if s.Sent < 0 || s.Bytes < 0 || s.Counts[traffic.CountResent] < 0 || s.Window <= 0 || s.Span <= 0 ||
				p.Received < 0 || p.Received > s.Sent || p.Bytes < 0 || p.Counts[traffic.CountResent] < 0 {
				t.Errorf("%s: %+v, peer %+v", name, s, p)
			}
			for _, d := range [][]int64{s.Series[traffic.SeriesDelivered], p.Series[traffic.SeriesDelivered]} {
				for i := range len(d) - 1 {
					if d[i+1] < d[i] || d[i] < 0 {
						t.Errorf("%s: delivered %d", name, d)
					}
				}
			}
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
		{"tcp-stream", part.Params{"message": "1048576", "direction": "reverse"}, ""},
		{"udp-rate", part.Params{"payload": "24", "mode": "single", "rate": "10000/s"}, ""},
		{"udp-rate", part.Params{
			"payload": "24", "mode": "single", "rate": "0.5/s",
		}, "at a rate of 0.5/s (valid: whole numbers a second)"},
		{
			"udp-rate",
			part.Params{"payload": "64", "mode": "batched"},
			`cannot drive udp-rate with mode "batched" (valid: mode single)`,
		},
		{"tcp-stream", part.Params{"message": "2000000"}, "cannot write 2000000 bytes at once (valid: 1 to 1048576)"},
		{"tcp-stream", part.Params{"message": "64", "direction": "both"}, "(valid: direction forward, reverse)"},
		{"udp-rr", part.Params{}, `cannot drive workload "udp-rr" (valid: tcp-stream, udp-rate)`},
	} {
		err := Driver{}.Serves(workload.Description{Name: tt.workload}, tt.params)
		if (err != nil) != (tt.err != "") || err != nil && !strings.HasSuffix(err.Error(), tt.err) {
			t.Errorf("%s %v: %v, want %q", tt.workload, tt.params, err, tt.err)
		}
	}
}
