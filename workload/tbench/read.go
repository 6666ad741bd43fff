package tbench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/traffic"
)

const (
	maxOutput = 1 << 20 // bytes: 64 clients have 20 lines each
	most      = 1 << 53 // of any number: larger ones are not valid
)

// The output of tbench (dbench.c, sig_alarm, report_latencies, main).
const (
	aReport = `(?m)^ *([0-9]+) +([0-9]+) +([0-9.]+) MB/sec  execute +([0-9]+) sec  latency [0-9.]+ ms$`
	aClient = `(?m)^Client ([0-9]+) did ([0-9]+) lines and ([0-9]+) bytes$`
	aRow    = `(?m)^ [A-Za-z]+ +([0-9]+) +[0-9.]+ +([0-9.]+)$`
	anEnd   = `(?m)^ *[0-9]+  cleanup +([0-9]+) sec$`
	aTotal  = `(?m)^Throughput [0-9.e+]+ MB/sec  ([0-9]+) clients  ([0-9]+) procs  max_latency=[0-9.]+ ms$`
)

// reason returns tbench's message on standard output when a connection breaks. If a connection cannot be made, the
// message is on standard error, which is quoted in any case.
func reason(stdout io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(stdout, maxOutput))
	if err != nil {
		return ""
	}
	found := regexp.MustCompile(`(?m)^.*(?:error writing|error reading|lost sync|Child failed|Failed to|overflow in server).*$`).Find(text)
	return strings.Join(strings.Fields(string(found)), " ")
}

// said holds the figures of a run.
type said struct {
	first, last   int     // s until its first report, and until its end
	lines, bytes  float64 // of all clients, up to the first report
	operations    float64 // lines of all clients, up to the end
	carried       float64 // bytes of all clients, up to the end
	longest       float64 // ms
	clients, rows int
}

// read fills the sample of a run with -t limit and this number of clients.
func read(stdout io.Reader, limit, clients int, sample *traffic.Sample) error {
	text, err := io.ReadAll(io.LimitReader(stdout, maxOutput))
	if err != nil {
		return err
	}
	s, err := parse(string(text))
	if err != nil {
		return err
	}
	switch {
	case s.clients != clients:
		return fmt.Errorf("reported %d clients instead of %d", s.clients, clients)
	case s.first != 1 || s.last != limit:
		return fmt.Errorf("reported from second %d to %d instead of 1 to %d", s.first, s.last, limit)
	case s.operations <= s.lines || s.carried <= s.bytes:
		return fmt.Errorf("did %.0f operations by its first report and %.0f by its end, %.0f and %.0f bytes: nothing in "+
			"between", s.lines, s.operations, s.bytes, s.carried)
	}
	sample.Window = int64(s.last-s.first) * int64(time.Second)
	sample.Span = sample.Window
	sample.Bytes = int64(math.Round(s.carried - s.bytes))
	sample.Received = int64(s.operations - s.lines)
	sample.Sent, sample.Total = sample.Received, int64(s.operations)
	sample.Foreign.Max = s.longest * 1e6
	return nil
}

// parse parses the output of a run.
func parse(text string) (said, error) {
	var s said
	var err error
	number := func(word string) float64 {
		v, e := strconv.ParseFloat(word, 64)
		if e != nil || !(v >= 0 && v <= most) {
			err = fmt.Errorf("printed the invalid count %.40q", word)
			return 0
		}
		return v
	}
	found := func(pattern string) [][]string { return regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) }

	reports, ends, totals := found(aReport), found(anEnd), found(aTotal)
	if len(totals) != 1 {
		return s, errors.New("did not print its throughput")
	}
	if len(reports) == 0 || len(ends) == 0 {
		return s, errors.New("made no report of its second before the last")
	}
	first := reports[0]
	s.first, s.last = int(number(first[4])), int(number(ends[0][1]))
	s.lines = number(first[1]) * number(first[2])
	s.bytes = 1e6 * number(first[3]) * number(first[4])

	list := found(aClient)
	s.clients = len(list)
	for i, c := range list {
		if int(number(c[1])) != i {
			return s, fmt.Errorf("said what client %.20s did in place of %d", c[1], i)
		}
		s.operations += number(c[2])
		s.carried += number(c[3])
	}
	if total := totals[0]; int(number(total[1])) != s.clients || int(number(total[2])) != s.clients ||
		int(number(first[1])) != s.clients {
		return s, fmt.Errorf("had %.20s clients in %.20s processes, of which %.20s ran, and said what %d did", total[1],
			total[2], first[1], s.clients)
	}
	for _, row := range found(aRow) {
		s.longest = max(s.longest, number(row[2]))
		s.rows++
	}
	if s.rows == 0 {
		return s, errors.New("printed no operation")
	}
	return s, err
}
