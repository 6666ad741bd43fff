package command

import (
	"math"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
)

const (
	pingSays = `PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.
64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.026 ms

--- 10.0.0.2 ping statistics ---
3 packets transmitted, 3 received, 0% packet loss, time 999ms
rtt min/avg/max/mdev = 0.018/0.080/21.675/0.443 ms, pipe 2, ipg/ewma 0.116/0.426 ms
`
	jsonSays = `{"end": {"streams": [{"p 99": 1.5}, {"p 99": 2.5, "it's": 3}], "sum": {"bits_per_second": 2.5e9, "text": "7", "none": null, "yes": true}}}`
)

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		figure, metric, unit, printed string
		want                          float64
		err                           string
	}{
		{pingFigure, "latency_mean", auto, pingSays, 80e-6, ""},
		{`regexp:time=([0-9.]+) ms`, "latency_mean", "ms", pingSays, 26e-6, ""},
		{`regexp:(?m)^x ([0-9.]+)$`, "goodput", "Mbit/s", "x 1\nx 2\nx 3\n", 3e6, ""}, // the last
		{`regexp:(?P<number>\S+) (?P<unit>\S+)`, "goodput", auto, "0.5 Gbits/sec", 5e8, ""},
		{
			`regexp:(?P<number>\S+) (?P<unit>\S+)`, "goodput", auto, "0.5 Gparsecs", 0,
			`printed an unsuitable unit: invalid unit "Gparsecs" of goodput (valid: values such as bit/s, kbit/s, Mbit/s, `,
		},
		{`regexp:time=(.*)`, "latency_mean", "ms", pingSays, 0, `printed "0.026 ms" instead of a number`},
		{`regexp:nothing (.)`, "latency_mean", "ms", pingSays, 0, `printed nothing that matches "nothing (.)"`},
		{`regexp:x(.*)`, "goodput", auto, "x-1", 0, `printed "-1" instead of a number`},
		{`regexp:x(.*)`, "goodput", auto, "xNaN", 0, `printed "NaN"`},
		{`regexp:x(.*)`, "goodput", auto, "x1e999", 0, `printed "1e999"`},
		{`regexp:x(.*)`, "goodput", "TB/s", "x1e300", 0, `printed "1e300"`},
		{"json:end.sum.bits_per_second", "goodput", auto, jsonSays, 2.5e9, ""},
		{"json:$.end.sum.bits_per_second", "goodput", auto, `{"end": 1}` + "\n" + jsonSays, 2.5e9, ""}, // the last
		{"json:$['end'][\"streams\"][-1]['p 99']", "goodput", "kbit/s", jsonSays, 2500, ""},
		{`json:end.streams[1]['it\'s']`, "goodput", auto, jsonSays, 3, ""},
		{"json:end.sum.text", "goodput", auto, jsonSays, 7, ""},
		{"json:$", "goodput", auto, "12", 12, ""},
		{"json:[1]", "goodput", auto, "[1, 2]", 2, ""},
		{"json:end.sum.none", "goodput", auto, jsonSays, 0, "no number at the path"},
		{"json:end.sum.yes", "goodput", auto, jsonSays, 0, "no number at the path"},
		{"json:end.sum", "goodput", auto, jsonSays, 0, "no number at the path"},
		{"json:end.sun", "goodput", auto, jsonSays, 0, `printed JSON without "sun" in "end" (it has streams, sum)`},
		{"json:end.streams[2]", "goodput", auto, jsonSays, 0, `printed JSON without [2] in "streams" (it is a list of 2)`},
		{"json:end.streams[-3]", "goodput", auto, jsonSays, 0, `printed JSON without [-3] in "streams" (it is a list of 2)`},
		{"json:end.streams.x", "goodput", auto, jsonSays, 0, `printed JSON without "x" in "streams" (it is a list of 2)`},
		{"json:end.sum.text.x", "goodput", auto, jsonSays, 0, `printed JSON without "x" in "text" (it is a single value)`},
		{"json:a", "goodput", auto, "iperf3: error", 0, "did not print JSON: "},
		{"json:a", "goodput", auto, "", 0, "did not print JSON: EOF"},
		{"json:a", "goodput", auto, `{"a": 1} x`, 0, "did not print JSON: "},
	} {
		f, err := parseFigure(tt.figure)
		if err != nil {
			t.Errorf("%s: %v", tt.figure, err)
			continue
		}
		got, err := f.find(strings.NewReader(tt.printed), metric(tt.metric), tt.unit)
		if tt.err != "" || err != nil {
			if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %g, %v; want %q", tt.figure, got, err, tt.err)
			}
			continue
		}
		if math.Abs(got/tt.want-1) > 1e-12 {
			t.Errorf("%s: %g, want %g", tt.figure, got, tt.want)
		}
	}
}

func TestParseFigure(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "neither json:PATH nor regexp:RE",
		"jq:.a":                        "neither json:PATH nor regexp:RE",
		"regexp:(":                     "missing closing )",
		"regexp:x":                     "has 0 groups (valid: one, or one named number: (?P<number>…))",
		"regexp:(a)(b)":                "has 2 groups",
		"regexp:(?P<unit>a)":           "has 1 groups",
		"json:":                        ` at ""`,
		"json:a..b":                    ` at "..b"`,
		"json:$a":                      ` at "a"`,
		"json:a[*]":                    ` at "[*]"`,
		"json:*":                       ` at "*"`,
		"json:a[1:2]":                  ` at "[1:2]"`,
		"json:a[01]":                   ` at "[01]"`,
		"json:a[":                      ` at "["`,
		"json:a['b":                    ` at "['b"`,
		"json:a]":                      ` at "]"`,
		"json:a['b'c]":                 ` at "['b'c]"`,
		"json:a[?@.b>1]":               ` at "[?@.b>1]"`,
		"json:a[99999999999999999999]": "invalid path",
	} {
		if _, err := parseFigure(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// metric returns the description of a metric that a figure can be.
func metric(name string) measure.Metric {
	m, _ := Workload{}.known().Lookup(name)
	return m
}

func TestUnit(t *testing.T) {
	for _, tt := range []struct {
		metric, unit string
		want         float64
	}{
		{"latency_mean", "us", 1e-6},
		{"latency_p99", "µs", 1e-6},
		{"latency_max", "msec", 1e-3},
		{"latency_mean", "seconds", 1},
		{"goodput", "Mbits/sec", 1e6},
		{"goodput", "MB/s", 8e6},
		{"goodput", "MiB/s", 8 << 20},
		{"goodput", "Gbps", 1e9},
		{"goodput", "KBytes/sec", 8e3},
		{"packet_rate", "kpps", 1e3},
		{"packet_rate", "packets/second", 1},
		{"transaction_rate", "k/s", 1e3},
		{"transaction_rate", "requests/sec", 1},
		{"connection_rate", "conn/s", 1},
		{"memory", "KiB", 1024},
	} {
		if got, err := unitFactor(metric(tt.metric), tt.unit); err != nil || math.Abs(got/tt.want-1) > 1e-12 {
			t.Errorf("%s in %s: %g, %v; want %g", tt.metric, tt.unit, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ metric, unit, want string }{
		{"latency_mean", "ks", "(valid: values such as s, ms, µs, ns)"},
		{"goodput", "mbit/s", `invalid unit "mbit/s" of goodput (valid: values such as bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, Kibit/s, Mibit/s, Gibit/s, Tibit/s)`},
		{"goodput", "", "invalid unit"},
		{"goodput", "ms", "invalid unit"},
	} {
		if got, err := unitFactor(metric(tt.metric), tt.unit); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s in %q: %g, %v; want %q", tt.metric, tt.unit, got, err, tt.want)
		}
	}
	names, _ := Workload{}.figures()
	for _, name := range names { // each unit of these metrics has a word
		m := metric(name)
		if x, err := unitFactor(m, stems(m.Unit)[0].word); err != nil || x != 1 {
			t.Errorf("%s: %g, %v", name, x, err)
		}
	}
}

// FuzzFind checks that any figure and output give an error or a valid number.
func FuzzFind(f *testing.F) {
	f.Add("json:end.streams[-1]['p 99']", jsonSays)
	f.Add(pingFigure, pingSays)
	f.Fuzz(func(t *testing.T, text, printed string) {
		fig, err := parseFigure(text)
		if err != nil {
			return
		}
		x, err := fig.find(strings.NewReader(printed), metric("goodput"), "Gbit/s")
		if err == nil && (!(x >= 0) || math.IsInf(x, 0)) {
			t.Errorf("%q of %q: %g", text, printed, x)
		}
	})
}
