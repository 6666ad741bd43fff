package netperf

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Output of netperf 2.7.0 for one second over a pair of veth.
const (
	datagramsSay = "ELAPSED_TIME=1.00\nLOCAL_SEND_THROUGHPUT=374.68\nLOCAL_SEND_CALLS=731848\nLOCAL_BYTES_SENT=46838272\nREMOTE_RECV_CALLS=690871\nREMOTE_BYTES_RECVD=44215744\n"
	streamSays   = "ELAPSED_TIME=1.01\nLOCAL_SEND_THROUGHPUT=4089.61\nLOCAL_BYTES_SENT=515375104\nREMOTE_BYTES_RECVD=515375104\nLOCAL_TRANSPORT_RETRANS=3\nLOCAL_CONG_CONTROL=reno\n"
	maertsSays   = "ELAPSED_TIME=1.00\nLOCAL_RECV_THROUGHPUT=70115.74\nLOCAL_BYTES_RECVD=8765308928\nREMOTE_BYTES_SENT=8774483968\nREMOTE_TRANSPORT_RETRANS=0\nREMOTE_CONG_CONTROL=reno\n"
	roundTripSay = "ELAPSED_TIME=1.00\nTRANSACTION_RATE=26585.377\nLOCAL_SEND_CALLS=26587\nLOCAL_RECV_CALLS=26587\nMEAN_LATENCY=37.57\nP50_LATENCY=25\n"
)

type reading = func(program.Said, *traffic.Sample, *traffic.Recorder) error

func readings() map[string]reading {
	return map[string]reading{
		"datagrams": readDatagrams, "stream": readStream("LOCAL_CONG_CONTROL", "reno"),
		"maerts": readStream("REMOTE_CONG_CONTROL", ""), "round trips": readUDP, "transactions": readRoundTrips,
	}
}

func TestRead(t *testing.T) {
	delivered := func(bytes float64) traffic.Series {
		var list []int64
		for i := range traffic.Slices + 1 {
			list = append(list, int64(bytes*float64(i)/traffic.Slices))
		}
		return traffic.Series{traffic.SeriesDelivered: list}
	}
	change := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	for _, tt := range []struct {
		name, what, text string
		want             traffic.Sample
		err              string
	}{
		{"as it is", "datagrams", datagramsSay, traffic.Sample{
			Sent: 731848, Total: 731848, Window: 1000069862, Span: 1000069862,
			Foreign: traffic.Foreign{Peer: &traffic.Sample{Received: 690871, Total: 690871, Bytes: 44215744}},
		}, ""},
		{
			"more came than were sent", "datagrams", change(datagramsSay, "690871", "790871"),
			traffic.Sample{},
			"790871 of 731848 datagrams arrived",
		},
		{
			"no time", "datagrams", change(datagramsSay, "ELAPSED_TIME=1.00", "ELAPSED_TIME=0.00"),
			traffic.Sample{},
			"a run time of 0 s",
		},
		{
			"another time", "datagrams", change(datagramsSay, "ELAPSED_TIME=1.00", "ELAPSED_TIME=2.00"),
			traffic.Sample{},
			"a run time of 2 s, but its rate implies 1.0",
		},
		{"as it is", "stream", streamSays, traffic.Sample{
			Counts: traffic.Counts{traffic.CountResent: 3}, Window: 1008164796, Span: 1008164796, Foreign: traffic.Foreign{
				Peer: &traffic.Sample{Bytes: 515375104, Series: delivered(515375104)},
			},
		}, ""},
		{
			"another congestion control", "stream", change(streamSays, "reno", "bbr"),
			traffic.Sample{},
			`congestion control "bbr" instead of "reno"`,
		},
		{"as it is", "maerts", maertsSays, traffic.Sample{
			Bytes: 8765308928, Series: delivered(8765308928), Window: 1000096004, Span: 1000096004,
			Foreign: traffic.Foreign{Peer: &traffic.Sample{}},
		}, ""},
		{"as it is", "round trips", roundTripSay, traffic.Sample{
			Sent: 26587, Received: 26587, Total: 26587, Window: 1000061049, Span: 1000061049,
			Foreign: traffic.Foreign{Mean: 37570, Median: 25000},
		}, ""},
		{"short ones", "round trips", change(roundTripSay, "P50_LATENCY=25", "P50_LATENCY=5"), traffic.Sample{
			Sent: 26587, Received: 26587, Total: 26587, Window: 1000061049, Span: 1000061049,
			Foreign: traffic.Foreign{Mean: 37570, Median: 5000},
			Doubt:   "netperf reports the median in whole µs, a resolution coarser than 5 %: driver=nettoll has a finer one",
		}, ""},
		{"one was lost", "round trips", change(roundTripSay, "26587", "13293", "26585.377", "13292.377"), traffic.Sample{
			Sent: 13293, Received: 13292, Total: 13293, Window: 1000046869, Span: 1000046869,
			Foreign: traffic.Foreign{Mean: 37570, Median: 25000},
			Doubt:   "a response was lost, and netperf waited for it until the end of its time: nettoll itself (driver=nettoll) does not",
		}, ""},
		{"a pause", "transactions", change(roundTripSay, "26587", "13293", "26585.377", "13292.377"), traffic.Sample{
			Sent: 13293, Received: 13293, Total: 13293, Window: 1000046869, Span: 1000046869,
			Foreign: traffic.Foreign{Mean: 37570, Median: 25000},
		}, ""},
		{"none", "round trips", change(roundTripSay, "26587", "0"), traffic.Sample{}, "counted no round trip"},
		{
			"no number", "round trips", change(roundTripSay, "37.57", "-nan"),
			traffic.Sample{},
			`invalid count MEAN_LATENCY="-nan"`,
		},
		{"nothing", "round trips", "", traffic.Sample{}, "did not print ELAPSED_TIME"},
		{"cut off", "round trips", roundTripSay[:80], traffic.Sample{}, "did not print MEAN_LATENCY"},
	} {
		t.Run(tt.what+" "+tt.name, func(t *testing.T) {
			var got traffic.Sample
			err := readings()[tt.what](program.Said{Seconds: 1, Stdout: strings.NewReader(tt.text)}, &got, nil)
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
	for _, seed := range []string{
		datagramsSay, streamSays, maertsSays, roundTripSay, "ELAPSED_TIME=1e300\nTRANSACTION_RATE=1e-300\n",
		strings.NewReplacer("70115.74", "9e15", "ELAPSED_TIME=1.00", "ELAPSED_TIME=0.00").Replace(maertsSays), // in 0 ns
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range slices.Sorted(maps.Keys(readings())) {
			var s traffic.Sample
			if err := readings()[name](program.Said{Seconds: 1, Stdout: strings.NewReader(text)}, &s, nil); err != nil {
				continue
			}
			if s.Sent < 0 || s.Received < 0 || s.Received > s.Sent || s.Bytes < 0 || s.Counts[traffic.CountResent] < 0 ||
				s.Window <= 0 || s.Span <= 0 || s.Foreign.Median < 0 || s.Foreign.Mean < 0 {
				t.Errorf("%s: %+v", name, s)
			}
			if p := s.Foreign.Peer; p != nil &&
				(p.Received < 0 || p.Received > s.Sent || p.Bytes < 0 || p.Counts[traffic.CountResent] < 0) {
				t.Errorf("%s: the other end: %+v", name, p)
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
		{"udp-rr", part.Params{"payload": "1", "mode": "wait"}, ""},
		{"tcp-rr", part.Params{"payload": "100", "response": "200", "mode": "wait"}, ""},
		{"tcp-crr", part.Params{"payload": "1"}, ""},
		{"tcp-stream", part.Params{"message": "1048576", "direction": "reverse"}, ""},
		{
			"udp-rr",
			part.Params{"payload": "64", "mode": "spin"},
			`cannot drive udp-rr with mode "spin" (valid: mode wait)`,
		},
		{
			"udp-rate",
			part.Params{"payload": "64", "mode": "batched"},
			`cannot drive udp-rate with mode "batched" (valid: mode single)`,
		},
		{"tcp-stream", part.Params{"message": "2000000"}, "cannot write 2000000 bytes at once (valid: 1 to 1048576)"},
		{
			"tcp-stream",
			part.Params{"message": "64", "direction": "both"},
			`cannot drive tcp-stream with direction "both" (valid: direction forward, reverse)`,
		},
		{"ping", part.Params{}, `cannot drive workload "ping" (valid: udp-rate, tcp-stream, udp-rr, tcp-rr, tcp-crr)`},
	} {
		err := Driver{}.Serves(workload.Description{Name: tt.workload}, tt.params)
		if (err != nil) != (tt.err != "") || err != nil && !strings.HasSuffix(err.Error(), tt.err) {
			t.Errorf("%s %v: %v, want %q", tt.workload, tt.params, err, tt.err)
		}
	}
}
