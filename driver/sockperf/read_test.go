package sockperf

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// Log of a ping-pong with --full-log, all but four of its packets left out: they lie 0.55 s apart.
const pingPongSays = `------------------------------
test was performed using the following parameters: --mps=600000 --burst=1 --reply-every=1 --msg-size=64 --time=1
------------------------------
sockperf: [Total Run] RunTime=1.001 sec; Warm up time=400 msec; SentMessages=24456; ReceivedMessages=24455
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=0.550 sec; SentMessages=4; ReceivedMessages=4
sockperf: ` + "\x1b[2;35m" + `====> avg-latency=37.935 (std-dev=7.745)` + "\x1b[0m" + `
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: ---> percentile 50.000 =   37.944
------------------------------
packet, txTime(sec), rxTime(sec), latency(usec)
0, 2.409690379, 2.409764992, 37.306
1, 2.409765148, 2.409849080, 41.966
2, 2.959903723, 2.959978399, 37.338
3, 2.959978448, 2.960054854, 38.203
------------------------------
`

func TestReadPingPong(t *testing.T) {
	stalled := strings.NewReplacer("2.959", "2.709", "2.960", "2.710").Replace(pingPongSays)
	for _, tt := range []struct {
		name, log string
		want      traffic.Sample
		err       string
	}{
		{
			"as it is", pingPongSays,
			traffic.Sample{Sent: 4, Received: 4, Total: 24456, Window: 550364475, Span: 1001000000},
			"",
		},
		{
			"the last answer did not come", stalled,
			traffic.Sample{
				Sent: 5, Received: 4, Total: 24456, Window: 300364475, Span: 1001000000,
				Doubt: "a response was lost, and sockperf waited for it until the end of its time: nettoll itself (driver=nettoll) does not",
			},
			"",
		},
		{"empty", "", traffic.Sample{}, "logged no round trip"},
		{
			"no answer", "------------------------------\nNo messages were received from the server. Is the server down?\n",
			traffic.Sample{},
			"logged no round trip",
		},
		{
			"cut off in a number", pingPongSays[:strings.LastIndex(pingPongSays, "2.9600")+4] + "\n",
			traffic.Sample{},
			"columns",
		},
		{
			"answered before it was sent", strings.Replace(pingPongSays, "2.409764992", "1.409764992", 1),
			traffic.Sample{},
			"received before it was sent",
		},
		{
			"a time that is none", strings.Replace(pingPongSays, "2.409764992", "NaN", 1),
			traffic.Sample{},
			"not a time in seconds",
		},
		{"no total", strings.Replace(pingPongSays, "SentMessages=24456; ", "", 1), traffic.Sample{}, "no SentMessages"},
		{"another program", "#!/bin/sh\n", traffic.Sample{}, "logged no round trip"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got traffic.Sample
			r := traffic.NewRecorder()
			err := readPingPong(program.Said{Log: strings.NewReader(tt.log)}, &got, r)
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
			// The full round trips: twice what sockperf prints.
			if r.Count != 4 || r.Max != 83932 || r.Sum != 74613+83932+74676+76406 {
				t.Errorf("recorded %d, longest %d, sum %d", r.Count, r.Max, r.Sum)
			}
		})
	}
}

const throughputSays = `sockperf: Test ended
sockperf: Total of 675507 messages sent in 1.000 sec

sockperf: Summary: Message Rate is 675185 [msg/sec]
sockperf: Summary: BandWidth is 41.210 MBps (329.680 Mbps)
`

func TestReadThroughput(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       traffic.Sample
		err        string
	}{
		{"as it is", throughputSays, traffic.Sample{Sent: 675507, Total: 675507, Window: 1000476906, Span: 1000476906}, ""},
		{"few", "Total of 3 messages sent in 1.002 sec\nSummary: Message Rate is 3 [msg/sec]", traffic.Sample{
			Sent: 3, Total: 3, Window: 1002000000, Span: 1002000000,
		}, ""},
		{"none", "sockperf: No messages were sent\n", traffic.Sample{}, "did not print what it sent"},
		{
			"in no time", "Total of 3 messages sent in 0.000 sec\nSummary: Message Rate is 3 [msg/sec]",
			traffic.Sample{},
			"a run time of 0 s",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got traffic.Sample
			err := readThroughput(program.Said{Stdout: strings.NewReader(tt.text)}, &got)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); err == nil && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadServer(t *testing.T) {
	for text, want := range map[string]int64{
		"sockperf: Total 677827 messages received and handled\n":                        677827,
		"sockperf: No messages were received on the server.\n":                          0,
		"sockperf: Test end (interrupted by user)\nsockperf: cleanupAfterLoop() exit\n": -1,
	} {
		var got traffic.Sample
		err := readServer(program.Said{Seconds: 2, Stdout: strings.NewReader(text)}, &got, nil)
		if want < 0 {
			if err == nil {
				t.Errorf("%q: %+v, want an error", text, got)
			}
			continue
		}
		if diff := cmp.Diff(traffic.Sample{Received: want, Total: want, Span: 2e9}, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
}

func TestReason(t *testing.T) {
	for text, want := range map[string]string{
		"sockperf: == version #3.7-no.git ==\nsockperf: ERROR: [fd=3] Can`t bind socket, IP to bind: 127.0.0.1:5001\n " +
			"(errno=98 Address already in use)\nsockperf: cleanupAfterLoop() exit\n": "ERROR: [fd=3] Can`t bind socket, IP to " +
			"bind: 127.0.0.1:5001\n (errno=98 Address already in use)",
		"sockperf: '-m' Invalid message size: 13 (min: 14)\nping-pong (pp): Run sockperf client\n":         "'-m' Invalid message size: 13 (min: 14)",
		"sockperf: Test ended\nsockperf: No messages were received from the server. Is the server down?\n": "No messages were received from the server. Is the server down?",
		"sockperf: Test ended\n": "",
	} {
		if got := reason(strings.NewReader(text)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Figures agree with what sockperf itself computes from the same packets.
func TestAgrees(t *testing.T) {
	testnet.Root(t)
	path, err := driver.Find(Driver{})
	testnet.Skip(t, err)
	workloadtest.Loopback(t)
	number := workloadtest.FreePort()
	port := strconv.Itoa(int(number))
	server := exec.Command(path, "server", "-i", "127.0.0.1", "-p", port)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	opened := fmt.Sprintf(" 0100007F:%04X ", number) // proc_net(5)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		table, err := os.ReadFile("/proc/thread-self/net/udp")
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(table, []byte(opened)) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the server has not opened its port")
		}
	}
	log := filepath.Join(t.TempDir(), "log")
	out, err := exec.Command(path, "ping-pong", "-i", "127.0.0.1", "-p", port, "--msg-size", "64", "--mps", "max",
		"--time", "1", "--full-log", log).Output()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var s traffic.Sample
	r := traffic.NewRecorder()
	if err := readPingPong(program.Said{Log: f}, &s, r); err != nil {
		t.Fatal(err)
	}
	h := traffic.NewHistogram()
	if err := r.AddTo(h); err != nil {
		t.Fatal(err)
	}
	said := func(pattern string) float64 {
		m := regexp.MustCompile(pattern).FindSubmatch(out)
		if m == nil {
			t.Fatalf("no %s in %s", pattern, out)
		}
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tt := range []struct {
		what            string
		got, want, near float64
	}{
		{"median, µs", float64(h.ValueAtQuantile(50)) / 2000, said(`percentile 50\.000 = +([0-9.]+)`), 0.002},
		{"mean, µs", float64(r.Sum) / float64(r.Count) / 2000, said(`Summary: Latency is ([0-9.]+) usec`), 0.001},
		{"longest, µs", float64(r.Max) / 2000, said(`<MAX> observation = +([0-9.]+)`), 0.001},
		{"received", float64(s.Received), said(`\[Valid Duration\].*ReceivedMessages=([0-9]+)`), 0},
		{"in all", float64(s.Total), said(`\[Total Run\].*SentMessages=([0-9]+)`), 0},
		{"window, s", float64(s.Window) / 1e9, said(`\[Valid Duration\] RunTime=([0-9.]+)`), 0.002},
		{"span, s", float64(s.Span) / 1e9, said(`\[Total Run\] RunTime=([0-9.]+)`), 0.001},
	} {
		if tt.got < tt.want*(1-tt.near) || tt.got > tt.want*(1+tt.near) {
			t.Errorf("%s: %v, sockperf says %v", tt.what, tt.got, tt.want)
		}
	}
}

// Any output gives possible figures or an error.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		pingPongSays, throughputSays, "Total 5 messages received", "",
		"packet, txTime(sec), rxTime(sec)\n1, 1e300, 2e300, 3\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, read := range map[string]func(program.Said, *traffic.Sample, *traffic.Recorder) error{
			"ping-pong": readPingPong,
			"throughput": func(said program.Said, s *traffic.Sample, _ *traffic.Recorder) error {
				return readThroughput(said, s)
			},
			"server": readServer,
		} {
			var s traffic.Sample
			said := program.Said{Seconds: 1, Stdout: strings.NewReader(text), Log: strings.NewReader(text)}
			if err := read(said, &s, traffic.NewRecorder()); err != nil {
				continue
			}
			if s.Sent < 0 || s.Received < 0 || s.Total < 0 || s.Window < 0 || s.Span <= 0 || name != "server" && s.Window == 0 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		reason(io.LimitReader(strings.NewReader(text), 1<<20))
	})
}

func TestServes(t *testing.T) {
	for _, tt := range []struct {
		workload string
		params   part.Params
		err      string
	}{
		{"udp-rr", part.Params{"payload": "14", "mode": "wait"}, ""},
		{"udp-rr", part.Params{"payload": "65507", "mode": "spin"}, ""},
		{"udp-rate", part.Params{"payload": "64", "mode": "single"}, ""},
		{
			"udp-rate",
			part.Params{"payload": "64", "mode": "batched"},
			`cannot drive udp-rate with mode "batched" (valid: mode single)`,
		},
		{"udp-rr", part.Params{"payload": "13", "mode": "wait"}, "cannot send 13 bytes (valid: 14 to 65507)"},
		{"tcp-stream", part.Params{}, `cannot drive workload "tcp-stream" (valid: udp-rr, udp-rate)`},
	} {
		err := Driver{}.Serves(workload.Description{Name: tt.workload}, tt.params)
		if (err != nil) != (tt.err != "") || err != nil && !strings.HasSuffix(err.Error(), tt.err) {
			t.Errorf("%s %v: %v, want %q", tt.workload, tt.params, err, tt.err)
		}
	}
}
