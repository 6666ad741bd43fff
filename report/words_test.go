package report

import (
	"math"
	"testing"

	"github.com/nettoll/nettoll/measure"
)

func TestRatio(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		x, lo, hi       float64
		point, interval string
	}{
		{1.091, 1.08, 1.103, "+9.1 %", "+8.0 to +10.3 %"},
		{0.88, 0.8766, 0.8834, "−12.0 %", "−12.3 to −11.7 %"},
		{1.0004, 0.9999, 1.0009, "+0.04 %", "−0.01 to +0.09 %"},
		{1.00001, 0.99, 1.01, "0.0 %", "−1.0 to +1.0 %"},
		{1, 1, 1, "0.0 %", "0.0 to 0.0 %"},
		{1.3, 0.9, 1.9, "+30 %", "−10 to +90 %"},
		{3.42, 3.31, 3.53, "×3.4", "×3.3 to ×3.5"},
		{0.31, 0.306, 0.313, "×0.310", "×0.306 to ×0.313"},
		{0.5, 0.5, 0.5, "×0.50", "×0.50 to ×0.50"},
		{212, 190, 240, "×212", "×190 to ×240"},
		{1.1, 0.01, 26, "+10 %", "×0.01 to ×26"},
		{1.1, 0, inf, "+10 %", "unknown"},
	} {
		point, interval := ratio(tt.x, tt.lo, tt.hi)
		if point != tt.point || interval != tt.interval {
			t.Errorf("ratio(%v, %v, %v) = %q, %q, want %q, %q", tt.x, tt.lo, tt.hi, point, interval, tt.point, tt.interval)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		value float64
		unit  string
		want  string
	}{
		{13e-6, measure.UnitSecond, "13.0 µs"},
		{13.26e-6, measure.UnitSecond, "13.3 µs"},
		{999.96e-6, measure.UnitSecond, "1.00 ms"},
		{0, measure.UnitSecond, "0 s"},
		{math.NaN(), measure.UnitSecond, "–"},
		{-2e-6, measure.UnitSecond, "−2.00 µs"},
		{34e9, measure.UnitBit, "34.0 Gbit/s"},
		{71234, measure.UnitTransaction, "71.2 k/s"},
		{310e-12, measure.UnitSecondsByte, "310 ns"}, // for 1000 bytes
		{2.1e-6, measure.UnitSecondsPacket, "2.10 µs"},
		{0.008, measure.UnitShare, "0.8 %"},
		{0.4, measure.UnitSegment, "0.4"},
		{1, measure.UnitCores, "1.00 cores"},
		{12345, "", "12.3 k"},
		{5, "", "5"},
	} {
		if got := Number(tt.value, tt.unit); got != tt.want {
			t.Errorf("number(%v, %q) = %q, want %q", tt.value, tt.unit, got, tt.want)
		}
	}
}

func TestNoise(t *testing.T) {
	goodput, _ := measure.Version2().Lookup("goodput")
	loss, _ := measure.Version2().Lookup("loss")
	retransmits, _ := measure.Version2().Lookup("retransmits")
	for _, tt := range []struct {
		floor float64
		m     measure.Metric
		want  string
	}{
		{math.Log(1.006), goodput, "±0.6 %"},
		{math.Log(1.10), goodput, "±10 %"},
		{math.Log(1.25), goodput, "−20 to +25 %"},
		{math.Log(1.49), goodput, "−33 to +49 %"},
		{math.Log(505), goodput, "÷505 to ×505"},
		{math.Log(120713784865), goodput, "more than ÷1000 to ×1000"},
		{0, goodput, "±0 %"},
		{math.Inf(1), goodput, "unknown"},
		{math.NaN(), loss, "unknown"},
		{0.001, loss, "±0.1 points"},
		{2.5, retransmits, "±2.5"},
	} {
		if got := noise(tt.floor, tt.m); got != tt.want {
			t.Errorf("noise(%v, %s) = %q, want %q", tt.floor, tt.m.Name, got, tt.want)
		}
	}
}

func TestLabel(t *testing.T) {
	for metric, want := range map[string]string{
		"latency_p50": "latency p50", "latency_p999": "latency p99.9", "oneway_latency_p99": "one-way latency p99",
		"latency_mean":     "latency mean",
		"goodput_per_pair": "goodput per pair", "transaction_rate_per_pair": "transactions per pair",
		"cpu_per_packet": "CPU per packet",
		"tcp_min_rtt":    "TCP shortest round trip", "tcp_cwnd": "TCP window",
		"of_tomorrow": "of tomorrow", "latency_p\x1b[31m": "latency p\uFFFD[31m",
	} {
		m, _ := measure.Version2().Lookup(metric)
		if got := Label(m); got != want {
			t.Errorf("label(%q) = %q, want %q", metric, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for s, want := range map[float64]string{0.42: "0.4 s", 38.4: "38 s", 150: "2 min 30 s", 7500: "2 h 5 min"} {
		if got := duration(s); got != want {
			t.Errorf("duration(%v) = %q, want %q", s, got, want)
		}
	}
}

func TestSlug(t *testing.T) {
	for text, want := range map[string]string{
		"udp-rr  payload 64, mode wait · same host": "udp-rr-payload-64-mode-wait-same-host",
		"../../etc/passwd":                          "etc-passwd", "µs": "s", "": "", "—": "",
	} {
		if got := Slug(text); got != want {
			t.Errorf("Slug(%q) = %q, want %q", text, got, want)
		}
	}
}
