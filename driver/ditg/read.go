package ditg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/traffic/program"
)

const (
	maxOutput = 1 << 20

	// decodeLimit is how long ITGDec may take for a log: it takes 10 ms for 10,000 datagrams. If it hangs, it must not
	// take as long as workers may take for the samples of a block (control, collectLimit).
	decodeLimit = 2 * time.Second
)

// reason returns why ITGSend or ITGRecv failed.
func reason(stdout io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(stdout, maxOutput))
	if err != nil {
		return ""
	}
	return string(regexp.MustCompile(`(?:Connect error|Could not|Cannot bind|\*\* Cannot)[^\n]*`).Find(text))
}

// A log is what ITGDec reports of a log file.
type log struct{ packets, bytes int64 }

// decoded reads a log with ITGDec.
func decoded(path string, said program.Said) (log, error) {
	ctx, cancel := context.WithTimeout(context.Background(), decodeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "/dev/stdin")
	cmd.Stdin = said.Log
	out, err := cmd.Output()
	if err != nil {
		return log{}, fmt.Errorf("wrote a log that %s cannot read: %w", decoder, err)
	}
	return read(out)
}

// read reads the totals that ITGDec prints.
func read(text []byte) (log, error) {
	_, totals, ok := bytes.Cut(text, []byte("TOTAL RESULTS"))
	if !ok {
		return log{}, fmt.Errorf("wrote a log for which %s prints no totals", decoder)
	}
	count := func(name string) (int64, error) {
		m := regexp.MustCompile(`(?m)^` + name + ` += +([0-9]{1,15})\b`).FindSubmatch(totals)
		if m == nil {
			return 0, fmt.Errorf("wrote a log for which %s prints no %q", decoder, name)
		}
		return strconv.ParseInt(string(m[1]), 10, 64)
	}
	var l log
	var err error
	if l.packets, err = count("Total packets"); err != nil {
		return log{}, err
	}
	if l.bytes, err = count("Bytes received"); err != nil {
		return log{}, err
	}
	if l.packets == 0 {
		return log{}, errors.New("logged no datagram")
	}
	if broken, err := count("Error lines"); err != nil || broken > 0 {
		return log{}, fmt.Errorf("wrote a log with %d lines that %s cannot read", broken, decoder)
	}
	return l, nil
}
