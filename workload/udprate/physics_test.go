package udprate_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/nettoll/nettoll/workload/udprate"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// A tenth of what a path can carry is carried, to the datagram, and for as long as it is asked for: whoever falls
// behind makes up for it. On a machine whose CPUs are taken away for longer than a buffer holds, one trial of some is
// like that.
func TestTenthOfCapacity(t *testing.T) {
	const tries, off = 4, 0.01
	flood := workloadtest.NewRig(t, udprate.Workload{}, workloadtest.Options{Pairs: 1, Length: 300 * time.Millisecond})
	_, result := flood.Trial(t)
	rate := math.Floor(result.Metrics["packet_rate"] / 10)
	paced := workloadtest.NewRig(t, udprate.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 5 * time.Second, Given: map[string]string{"rate": strconv.FormatFloat(rate, 'f', -1, 64) + "/s"},
	})
	for range tries {
		_, result = paced.Trial(t)
		t.Logf("capacity about %.0f a second; of %.0f a second %v, %v", 10*rate, rate, result.Metrics, result.Warnings)
		if math.Abs(result.Metrics["packet_rate"]/rate-1) <= off &&
			math.Abs(result.Metrics["packet_rate_sent"]/rate-1) <= off {
			return
		}
	}
	t.Errorf("%.0f datagrams a second were asked for, and in none of %d trials of 5 s did as many come, to 1 %%", rate,
		tries)
}
