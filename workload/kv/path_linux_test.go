package kv_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/kv"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// carried returns the number of bytes that the link of a place has received.
func carried(t *testing.T, at workloadtest.Where) (bytes int64) {
	t.Helper()
	if err := at.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/dev")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if name, counts, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == workloadtest.VethName {
				bytes, err = strconv.ParseInt(strings.Fields(counts)[0], 10, 64)
				return err
			}
		}
		return fmt.Errorf("%q is not in %s", workloadtest.VethName, text)
	}); err != nil {
		t.Fatal(err)
	}
	return bytes
}

// The counted values have crossed the path, in the direction of the operation, with little else.
func TestCarried(t *testing.T) {
	for _, operation := range []string{"get", "set"} {
		t.Run(operation, func(t *testing.T) {
			where := workloadtest.Veth(t)
			r := workloadtest.NewRig(t, kv.Workload{}, workloadtest.Options{
				Pairs: 1, Length: 80 * time.Millisecond, Given: map[string]string{
					"operation": operation, "payload": "10000", "clients": "4",
				}, Where: where,
			})
			to, back := where[workload.Source], where[workload.Sink]
			if operation == "set" {
				to, back = back, to
			}
			r.Trial(t) // connections are made
			witness.Until(t, workloadtest.Borne(), func() error {
				before, beforeBack := carried(t, to), carried(t, back)
				trial, _ := r.Trial(t)
				got, gotBack := carried(t, to)-before, carried(t, back)-beforeBack
				s := trial.Sources[0]
				if trial.Failure() != "" || s.Doubt != "" || s.Counts[traffic.CountResent] > 0 ||
					trial.Sinks[0].Counts[traffic.CountResent] > 0 {
					return fmt.Errorf("%q, %+v, %+v", trial.Failure(), s, trial.Sinks[0])
				}
				// Headers of Ethernet, IPv4 and TCP with timestamps are 66 bytes for each 1448 bytes if the link counts
				// each packet, or for each 64 KiB or less if it counts segments that are cut later. Short messages, and
				// acknowledgements, go in the other direction.
				values := s.Total * 10000
				if got < values || float64(got) > 1.08*float64(values) {
					t.Errorf("%d values have %d bytes, and the link has carried %d", s.Total, values, got)
				}
				if gotBack > s.Total*1200 {
					t.Errorf("for %d values the link has carried %d bytes the other way", s.Total, gotBack)
				}
				return nil
			})
		})
	}
}
