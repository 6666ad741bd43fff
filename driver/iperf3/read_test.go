package iperf3

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// recorded returns the output of iperf3 3.12 for one second over loopback.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func stream() workload.Spec { return workload.Spec{Workload: "tcp-stream"} }

func datagrams() workload.Spec {
	return workload.Spec{Workload: "udp-rate", Params: part.Params{"payload": "64"}}
}

// The figures are those of iperf3's own summary.
func TestRecorded(t *testing.T) {
	type summary struct {
		End struct {
			Received struct{ Bytes, Packets, Seconds float64 } `json:"sum_received"`
			Sent     struct{ Packets float64 }                 `json:"sum_sent"`
		} `json:"end"`
	}
	said := func(name string) (s summary) {
		if err := json.Unmarshal(recorded(t, name), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	read := func(name string, spec workload.Spec, client bool) (s traffic.Sample) {
		f := readServer(spec)
		if client {
			f = readClient
		}
		if err := f(program.Said{Seconds: 1, Stdout: bytes.NewReader(recorded(t, name))}, &s, nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return s
	}
	tcp := read("tcp-server.json", stream(), false)
	if want := int64(said("tcp-server.json").End.Received.Bytes); tcp.Bytes != want {
		t.Errorf("stream: %d bytes, iperf3 says %d", tcp.Bytes, want)
	}
	d := tcp.Series[traffic.SeriesDelivered]
	if len(d) != traffic.Slices+1 || d[0] != 0 || d[2] != 266404376 || tcp.Bytes-d[traffic.Slices] > tcp.Bytes/1000 {
		t.Errorf("delivered %d of %d", d, tcp.Bytes)
	}
	for i := range traffic.Slices {
		if d[i+1] <= d[i] {
			t.Errorf("delivered %d: falls at %d", d, i)
		}
	}
	tcp.Series = nil
	if diff := cmp.Diff(traffic.Sample{Bytes: 4516478976, Window: 1e9, Span: 1e9}, tcp); diff != "" {
		t.Errorf("stream's receiver (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(traffic.Sample{Counts: traffic.Counts{traffic.CountResent: 1}, Span: 1000060000},
		read("tcp-client.json", stream(), true)); diff != "" {
		t.Errorf("stream's sender (-want +got):\n%s", diff)
	}
	udp := read("udp-server.json", datagrams(), false)
	if want := int64(said("udp-server.json").End.Received.Bytes / 64); udp.Received != want {
		t.Errorf("%d datagrams came, iperf3 says %d", udp.Received, want)
	}
	if diff := cmp.Diff(traffic.Sample{
		Received: 288066, Total: 288066, Bytes: 18436224, Window: 1000103000, Span: 1000103000,
	}, udp); diff != "" {
		t.Errorf("datagrams' receiver (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(traffic.Sample{
		Sent: 430250, Total: 430250, Span: 1000021000,
	}, read("udp-client.json", datagrams(), true)); diff != "" {
		t.Errorf("datagrams' sender (-want +got):\n%s", diff)
	}
}

func TestRefused(t *testing.T) {
	interval := func(sums ...string) string {
		return `{"intervals":[{"sum":` + strings.Join(sums, `},{"sum":`) + `}]}`
	}
	for text, want := range map[string]string{
		"":                     "did not print JSON",
		"iperf3: error":        "did not print JSON",
		`{"intervals":[]}`:     "no interval",
		`{"error":"refused"}`:  "gave up",
		interval(`{"end":0}`):  "length 0",
		interval(`{"end":-1}`): "an invalid interval from 0 to -1 s",
		interval(`{"end":1}`, `{"start":0.5,"end":2}`):                            "after one to 1 s",
		interval(`{"end":1e9}`):                                                   "an invalid interval from 0 to 1e+09 s",
		interval(`{"end":1,"bytes":-5}`):                                          "with -5 bytes",
		interval(`{"end":1,"bytes":1e300}`):                                       "with 1e+300 bytes",
		`{"intervals":[{"sum":{"end":1}}],"end":{"sum_sent":{"retransmits":-1}}}`: "the invalid count -1",
	} {
		if _, err := read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	if got := reason(strings.NewReader(`{"error":"refused"}`)); got != "refused" {
		t.Errorf("reason %q", got)
	}
	if got := reason(strings.NewReader("x")); got != "" {
		t.Errorf("reason of rubbish: %q", got)
	}
}

// Any output gives possible figures or an error.
func FuzzRead(f *testing.F) {
	// Short outputs: the recorded ones are too long to be changed well.
	f.Add([]byte(`{"intervals":[{"sum":{"end":0.5,"bytes":64}},{"sum":{"start":0.5,"end":1,"bytes":640}}],"end":{"streams":[{"udp":{"out_of_order":1}}]}}`))
	f.Add([]byte(`{"intervals":[{"sum":{"end":1,"packets":9}}],"end":{"sum_sent":{"retransmits":3}}}`))
	f.Add([]byte(`{"intervals":[{"sum":{"end":1e-12,"bytes":5}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, read := range map[string]func(program.Said, *traffic.Sample, *traffic.Recorder) error{
			"stream":    readServer(stream()),
			"datagrams": readServer(datagrams()),
			"client":    readClient,
		} {
			var s traffic.Sample
			if err := read(program.Said{Seconds: 1, Stdout: bytes.NewReader(text)}, &s, nil); err != nil {
				continue
			}
			if s.Sent < 0 || s.Received < 0 || s.Total < 0 || s.Bytes < 0 || s.Counts[traffic.CountResent] < 0 || s.Window < 0 ||
				s.Span <= 0 || name != "client" && s.Window == 0 {
				t.Errorf("%s: %+v", name, s)
			}
			for i := range len(s.Series[traffic.SeriesDelivered]) - 1 {
				if s.Series[traffic.SeriesDelivered][i+1] < s.Series[traffic.SeriesDelivered][i] {
					t.Errorf("%s: delivered %d", name, s.Series[traffic.SeriesDelivered])
				}
			}
		}
		reason(bytes.NewReader(text))
	})
}

func TestServes(t *testing.T) {
	for _, tt := range []struct {
		workload string
		params   part.Params
		err      string
	}{
		{"tcp-stream", part.Params{"message": "1048576"}, ""},
		{"udp-rate", part.Params{"payload": "24", "mode": "single"}, ""},
		{"udp-rate", part.Params{"payload": "15", "mode": "single"}, "cannot send 15 bytes (valid: 16 to 65507)"},
		{
			"udp-rate",
			part.Params{"payload": "64", "mode": "batched"},
			`cannot drive udp-rate with mode "batched" (valid: mode single)`,
		},
		{"tcp-stream", part.Params{"message": "2000000"}, "cannot write 2000000 bytes at once (valid: 1 to 1048576)"},
		{"udp-rr", part.Params{}, `cannot drive workload "udp-rr" (valid: tcp-stream, udp-rate)`},
	} {
		err := Driver{}.Serves(workload.Description{Name: tt.workload}, tt.params)
		if (err != nil) != (tt.err != "") || err != nil && !strings.HasSuffix(err.Error(), tt.err) {
			t.Errorf("%s %v: %v, want %q", tt.workload, tt.params, err, tt.err)
		}
	}
}
