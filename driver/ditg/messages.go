package ditg

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// The workloads whose messages get no answer: burst and quake3.

const (
	// maxLog is the maximum length of a log, in bytes: a datagram takes 144.
	maxLog = 1 << 28

	// oneSided is the warning of trials of quake3.
	oneSided = "d-itg's quake3 has no server: these are only the datagrams of the player (driver=nettoll plays both)"
)

// period is how long a burst and its pause last, in whole seconds. Traffic flows for as long.
func period(p part.Params) time.Duration {
	n := p.Duration("on") + p.Duration("off")
	return max(time.Second, (n + time.Second - 1).Truncate(time.Second))
}

// burstRate is how many datagrams a second are sent during a burst.
func burstRate(p part.Params) float64 { return p.BitRate("rate") / 8 / float64(p.Size("payload")) }

func (d Driver) servesBurst(w workload.Description, p part.Params) error {
	if r := burstRate(p); r > fastest {
		return fmt.Errorf("driver d-itg cannot drive burst at rate %q in datagrams of %s bytes, %.0f a second (valid: "+
			"up to %d)", p["rate"], p["payload"], r, fastest)
	}
	return d.Describe().Understands(w, p, "rate", "on", "off", "payload")
}

func (d Driver) servesQuake(w workload.Description, p part.Params) error {
	if n := p.Count("players"); n != 1 {
		return fmt.Errorf("driver d-itg cannot drive quake3 with %d players: ITGSend 2.8.1 with several flows often does "+
			"not end (valid: players 1)", n)
	}
	return d.Describe().Understands(w, p, "players", "server") // it has no server: see Differs
}

// bursts returns the options of burst. Times are in ms (d-itg-manual.pdf, "Bursty traffic").
func bursts(p part.Params) []string {
	ms := func(name string) string {
		return strconv.FormatFloat(float64(p.Duration(name))/float64(time.Millisecond), 'f', -1, 64)
	}
	rate := []string{"-C", strconv.FormatFloat(burstRate(p), 'f', 6, 64)}
	if p.Duration("off") == 0 {
		return rate
	}
	return append([]string{"-B", "C", ms("on"), "C", ms("off")}, rate...)
}

// readMessages fills the sample of a sink, and records one-way times.
func readMessages(decode string, said program.Said, sample *traffic.Sample, recorder *traffic.Recorder) error {
	text, err := process.Memory("messages")
	if err != nil {
		return err
	}
	defer text.Close()
	binary, err := io.ReadAll(io.LimitReader(said.Log, maxLog))
	if err != nil {
		return err
	}
	totals, err := decoded(decode, program.Said{Log: bytes.NewReader(binary)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), decodeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, decode, "/dev/stdin", "-l", program.FilePath(0)) // with -l it prints no totals
	cmd.Stdin, cmd.ExtraFiles = bytes.NewReader(binary), []*os.File{text}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("wrote a log that %s cannot list: %w", decoder, err)
	}
	got, err := readLines(io.NewSectionReader(text, 0, math.MaxInt64), recorder)
	if err != nil {
		return err
	}
	if got.Total != totals.packets {
		return fmt.Errorf("logged %d datagrams, but %s reports %d", got.Total, decoder, totals.packets)
	}
	got.Span = int64(said.Seconds) * int64(time.Second)
	*sample = got
	return nil
}

// A lane is what arrived of one flow.
type lane struct {
	seen    map[int64]bool // numbers
	highest int64
	last    int64 // ns: one-way time of the last datagram
}

// readLines reads the datagrams that ITGDec lists, one per line, in order of arrival:
//
//	Flow>0001 Seq> 1 Src> 127.0.0.1/43589 Dest> 127.0.0.1/10003 txTime>19:34:8.290445 rxTime>19:34:8.290457 Size> 653
func readLines(text io.Reader, recorder *traffic.Recorder) (s traffic.Sample, err error) {
	line := regexp.MustCompile(`^Flow>([0-9]{1,9}) Seq> *([0-9]{1,15}) Src> *[^ ]+ Dest> *[^ ]+ txTime>([0-9:.]+) rxTime>([0-9:.]+) Size> *([0-9]{1,9})$`)
	lanes := map[string]*lane{}
	var repeated, reordered, jitter int64
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		m := line.FindStringSubmatch(strings.TrimSpace(lines.Text()))
		if m == nil {
			return s, fmt.Errorf("logged %.100q", lines.Text())
		}
		oneWay, err := between(m[3], m[4])
		if err != nil {
			return s, fmt.Errorf("logged %.200q: %w", lines.Text(), err)
		}
		seq, _ := strconv.ParseInt(m[2], 10, 64) // the pattern allows digits only
		size, _ := strconv.ParseInt(m[5], 10, 64)
		l, known := lanes[m[1]]
		if !known {
			l = &lane{seen: map[int64]bool{}}
			lanes[m[1]] = l
		}
		s.Total++
		if l.seen[seq] {
			repeated++
			continue
		}
		l.seen[seq] = true
		s.Received++
		s.Bytes += size
		if seq < l.highest {
			reordered++
		}
		l.highest = max(l.highest, seq)
		if known {
			jitter += max(oneWay-l.last, l.last-oneWay)
		}
		l.last = oneWay
		recorder.Record(oneWay)
	}
	if err := lines.Err(); err != nil {
		return s, fmt.Errorf("wrote an unreadable list: %w", err)
	}
	s.Count(traffic.CountRepeated, repeated)
	s.Count(traffic.CountReordered, reordered)
	s.Count(flows.CountJitter, jitter)
	s.Count(flows.CountFlows, int64(len(lanes)))
	return s, nil
}

// between returns the ns from one time of day to another, perhaps of the next day.
func between(from, to string) (int64, error) {
	a, err := clock(from)
	if err != nil {
		return 0, err
	}
	b, err := clock(to)
	if err != nil {
		return 0, err
	}
	const day = int64(24 * time.Hour)
	n := b - a
	if n < -day/2 {
		n += day
	}
	if n < 0 {
		return 0, fmt.Errorf("it arrived at %s, %v before it was sent", to, time.Duration(-n))
	}
	return n, nil
}

// clock reads a time of day as ITGDec writes it: hours:minutes:seconds.microseconds. Only the microseconds have leading
// zeroes.
func clock(text string) (int64, error) {
	whole, micros, _ := strings.Cut(text, ".")
	fields := strings.Split(whole, ":")
	bounds := [...]int64{24, 60, 61}
	if len(fields) != len(bounds) || len(micros) != len("000000") {
		return 0, fmt.Errorf("%.40q is not a time of day", text)
	}
	seconds := int64(0)
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 8)
		if err != nil || int64(n) >= bounds[i] {
			return 0, fmt.Errorf("%.40q is not a time of day", text)
		}
		seconds = 60*seconds + int64(n)
	}
	us, err := strconv.ParseUint(micros, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a time of day", text)
	}
	return seconds*1e9 + int64(us)*1e3, nil
}
