package ditg

import (
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/workload"
)

// Output of ITGDec 2.8.1 for one second.
const says = `ITGDec version 2.8.1 (r1023)
Compile-time options: sctp dccp bursty multiport
----------------------------------------------------------
Flow number: 1
From 10.0.0.1:40604
To    10.0.0.2:20000
----------------------------------------------------------
Total time               =      0.999739 s
Total packets            =           917
Bytes received           =         22008
Packets dropped          =             0 (0.00 %)
----------------------------------------------------------

__________________________________________________________
****************  TOTAL RESULTS   ******************
__________________________________________________________
Number of flows          =             1
Total time               =      0.999739 s
Total packets            =           917
Minimum delay            =      0.000003 s
Maximum delay            =      0.001048 s
Average delay            =      0.000008 s
Bytes received           =         22008
Average packet rate      =    917.239399 pkt/s
Packets dropped          =             0 (0.00 %)
Average loss-burst size  =             0 pkt
Error lines              =             0
----------------------------------------------------------
`

func TestRead(t *testing.T) {
	if got, err := read([]byte(says)); err != nil || got != (log{917, 22008}) {
		t.Errorf("%+v, %v", got, err)
	}
	last := strings.LastIndex(says, "Total packets")
	for text, want := range map[string]string{
		"":                                       "prints no totals",
		says[:last]:                              `prints no "Total packets"`,
		says[:last+200]:                          `prints no "Bytes received"`,
		says + "overrun":                         "",
		strings.ReplaceAll(says, "917\n", "0\n"): "logged no datagram",
		strings.ReplaceAll(says, "917\n", "-5\n"): `prints no "Total packets"`,
		strings.ReplaceAll(says, "Error lines              =             0",
			"Error lines              =             3"): "3 lines that ITGDec cannot read",
	} {
		if got, err := read([]byte(text)); (err != nil) != (want != "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %+v, %v, want %q", text, got, err, want)
		}
	}
	const refused = "ITGSend version 2.8.1 (r1023)\nConnect error in createTransportChan(): Connection refused\n"
	if got := reason(strings.NewReader(refused)); got != "Connect error in createTransportChan(): Connection refused" {
		t.Errorf("reason %q", got)
	}
}

// Any output gives possible figures or an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte(says))
	f.Add([]byte("TOTAL RESULTS\nTotal packets = 99999999999999999\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if l, err := read(text); err == nil && (l.packets <= 0 || l.bytes < 0) {
			t.Errorf("%+v", l)
		}
		reason(strings.NewReader(string(text)))
	})
}

func TestGaps(t *testing.T) {
	for arrivals, want := range map[string]string{
		"constant":    "-C 100.000000",
		"poisson":     "-E 100.000000",
		"uniform:0.5": "-U 66.666667 200.000000",
		"normal:0.2":  "-N 10.000000 2.000000",
		"gamma:2":     "-G 2.000000 5.000000",
		"pareto:3":    "-V 3.000000 6.666667",
	} {
		got, err := gaps(part.Params{"rate": "100/s", "arrivals": arrivals})
		if err != nil || !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v, %v, want %s", arrivals, got, err, want)
		}
	}
	for _, arrivals := range []string{
		"uniform:1", "normal:1", "weibull:0.7", "cauchy:0.1", "bursts:10ms:40ms", "replay:/x@00000000",
	} {
		if got, err := gaps(part.Params{"rate": "100/s", "arrivals": arrivals}); err == nil ||
			!strings.Contains(err.Error(), `"`+arrivals+`" (valid: constant`) {
			t.Errorf("%s: %v, %v", arrivals, got, err)
		}
	}
}

func TestServes(t *testing.T) {
	for _, tt := range []struct {
		workload string
		params   part.Params
		err      string
	}{
		{"udp-rate", part.Params{"payload": "24", "mode": "single", "rate": "1000/s", "arrivals": "poisson"}, ""},
		{"udp-rate", part.Params{
			"payload": "24", "mode": "single", "rate": "max",
		}, `at rate "max" (valid: up to 100000/s)`},
		{"udp-rate", part.Params{
			"payload": "24", "mode": "single", "rate": "1000000/s",
		}, `at rate "1000000/s" (valid: up to 100000/s)`},
		{"udp-rate", part.Params{"payload": "64", "mode": "batched"}, `with mode "batched" (valid: mode single)`},
		{"udp-rr", part.Params{}, `cannot drive workload "udp-rr" (valid: udp-rate at a rate, burst, quake3)`},
	} {
		err := Driver{}.Serves(workload.Description{Name: tt.workload}, tt.params)
		if (err != nil) != (tt.err != "") || err != nil && !strings.HasSuffix(err.Error(), tt.err) {
			t.Errorf("%s %v: %v, want %q", tt.workload, tt.params, err, tt.err)
		}
	}
}
