package redisbenchmark

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
)

const (
	maxOutput = 1 << 20 // bytes: a minute has 240 reports

	perSecond = 4 // reports (SHOW_THROUGHPUT_INTERVAL, 250 ms)
	enough    = 2 // fewer by this factor are enough
	silent    = 2 // reports: so many last ones without an answer mean that the server hangs

	none = "0.0" // requests/s

	fastest = 1e9  // requests/s: more is invalid
	slowest = 60e3 // ms
)

// aReport is what it prints every 250 ms, the first time 1 ms after its beginning (showThroughput, benchmark). "nan"
// stands for an unknown figure.
const aReport = `(?:GET|SET): rps=([0-9.]{1,16}) \(overall: ([0-9.]{1,16}|-?nan)\) avg_msec=(?:[0-9.]{1,16}|-?nan) \(overall: ([0-9.]{1,16}|-?nan)\)\r`

// anError is what it prints of an answer that begins with "-", once a second (readHandler).
const anError = `Error from server: [^\r\n]*`

// reason returns why it failed, if its standard output contains the reason.
func reason(stdout io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(stdout, maxOutput))
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(regexp.MustCompile(anError).Find(text))), " ")
}

// read fills the sample of a source.
func read(said program.Said, s *traffic.Sample, _ *traffic.Recorder) error {
	text, err := io.ReadAll(io.LimitReader(said.Stdout, maxOutput))
	if err != nil {
		return err
	}
	if found := regexp.MustCompile(anError).Find(text); found != nil {
		return fmt.Errorf("got an answer that reports a failure: %q", found)
	}
	reports := regexp.MustCompile(aReport).FindAllStringSubmatch(string(text), -1)
	if len(reports) > 0 {
		reports = reports[1:] // these cover the first ms
	}
	most := perSecond * said.Seconds
	if len(reports) < most/enough {
		return fmt.Errorf("made %d reports in its trial instead of %d, one every 250 ms", len(reports), most)
	}
	for said := len(reports); reports[said-1][1] == none; {
		if said--; said == 0 || len(reports)-said == silent {
			return fmt.Errorf("got no answer in the last %d ms", 1000*silent/perSecond)
		}
	}
	at := min(most, len(reports)) // they are late if it only writes long values, or has no CPU
	var count [2]float64          // requests by the report that counts, and by the last one
	var mean float64
	for i, number := range []int{at, len(reports)} {
		r := reports[number-1]
		rate, err := figure(r[2], fastest)
		if err != nil {
			return err
		}
		if count[i] = math.Round(rate * float64(number) / perSecond); i == 0 {
			count[i] = math.Round(rate * float64(said.Seconds))
			if mean, err = figure(r[3], slowest); err != nil {
				return err
			}
		}
	}
	if count[0] < 1 || mean <= 0 {
		return fmt.Errorf("reported inconsistent figures: %.0f answers in %d s, after %g ms on "+
			"average", count[0], said.Seconds, mean)
	}
	s.Window = int64(said.Seconds) * int64(time.Second)
	s.Span = max(s.Window, int64(len(reports))*int64(time.Second)/perSecond)
	// the last report may be later than its number says
	s.Sent, s.Received, s.Total = int64(count[0]), int64(count[0]), int64(max(count[0], count[1]))
	s.Foreign.Mean = mean * 1e6
	return nil
}

func figure(text string, most float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= most) {
		return 0, fmt.Errorf("printed the invalid figure %.20q", text)
	}
	return v, nil
}
