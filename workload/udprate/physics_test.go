package udprate_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/workload/udprate"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// A tenth of the capacity of a path is carried, exactly and for the requested time: a source that falls behind catches
// up. If CPUs are taken away for longer than a buffer lasts, no more is lost than was due meanwhile.
func TestTenthOfCapacity(t *testing.T) {
	const length, off = 5 * time.Second, 0.01
	flood := workloadtest.NewRig(t, udprate.Workload{}, workloadtest.Options{Pairs: 1, Length: 300 * time.Millisecond})
	_, result := flood.Trial(t)
	rate := math.Floor(result.Metrics["packet_rate"] / 10)
	paced := workloadtest.NewRig(t, udprate.Workload{}, workloadtest.Options{
		Pairs: 1, Length: length, Given: map[string]string{"rate": strconv.FormatFloat(rate, 'f', -1, 64) + "/s"},
	})
	witness.Until(t, witness.Limit{Lost: length / 100}, func() error {
		_, result = paced.Trial(t)
		t.Logf("capacity about %.0f a second; of %.0f a second %v, %v", 10*rate, rate, result.Metrics, result.Warnings)
		if math.Abs(result.Metrics["packet_rate"]/rate-1) <= off &&
			math.Abs(result.Metrics["packet_rate_sent"]/rate-1) <= off {
			return nil
		}
		return fmt.Errorf("%.0f datagrams a second were asked for, and %.0f came, of %.0f that were sent", rate,
			result.Metrics["packet_rate"], result.Metrics["packet_rate_sent"])
	})
}
