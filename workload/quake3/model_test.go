package quake3

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/nettoll/nettoll/workload/workloadtest"
)

// gapCDF is the distribution of a client's gaps, written independently.
func gapCDF(x float64) float64 {
	f := 0.6 * (1 - math.Exp(-max(0, x)/0.00429))
	if x >= 0.01075 {
		f += 0.4
	}
	return f
}

// The schedules fit the source distributions and no others (Kolmogorov–Smirnov, at 1 %, fixed seeds).
func TestSchedulesFit(t *testing.T) {
	const seed, players = 11, 4
	for player := range players {
		client, err := clientSchedule(seed, player)
		if err != nil {
			t.Fatal(err)
		}
		server, err := serverSchedule(seed, player, players)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{300, 3000, 1 << 14} {
			var gaps, lengths, answers []float64
			for i := range uint64(n) {
				gaps = append(gaps, math.Round(float64(client.Due(i+1)-client.Due(i))/1e3)/1e6) // to 1 µs: one of them is a step
				lengths = append(lengths, float64(client.Size(i)))
				answers = append(answers, float64(server.Size(i)))
				if got := server.Due(i+1) - server.Due(i); got != 50e6 {
					t.Fatalf("a tick of %d ns", got)
				}
			}
			for _, c := range []struct {
				name   string
				sample []float64
				cdf    func(float64) float64
				fits   bool
			}{
				{"client gaps", gaps, gapCDF, true},
				{"client lengths", lengths, workloadtest.Whole(distuv.Normal{Mu: 64.151757, Sigma: 3.2035755}.CDF), true},
				{"server lengths", answers, workloadtest.Whole(serverLengths(players).CDF), true},
				{"client gaps without the pictures", gaps, distuv.Exponential{Rate: 1 / 0.006874}.CDF, false},
				{
					"client lengths, twice as spread", lengths, workloadtest.Whole(distuv.Normal{Mu: 64.151757, Sigma: 6.407}.CDF),
					false,
				},
				{"server lengths of five players", answers, workloadtest.Whole(serverLengths(5).CDF), false},
			} {
				if d := workloadtest.Apart(c.sample, c.cdf); (d <= workloadtest.Critical(n)) != c.fits {
					t.Errorf("player %d, %d %s: %.4f apart, critical value %.4f, want it to fit: %v", player, n, c.name, d,
						workloadtest.Critical(n), c.fits)
				}
			}
		}
		if want := 1 / (0.6*0.00429 + 0.4*0.01075); math.Abs(client.Rate()/want-1) > 1e-3 {
			t.Errorf("a client sends %.1f packets a second, want %.1f", client.Rate(), want)
		}
	}
	if got := meanLength(4); math.Abs(got-104.17) > 0.01 {
		t.Errorf("a server's packets have %.2f bytes with four players", got)
	}
}

// A seed always gives the same arrivals; other players and other seeds get others.
func TestSeeds(t *testing.T) {
	type arrival struct {
		due  int64
		size int
	}
	list := func(seed uint64, player int) (all []arrival) {
		s, err := clientSchedule(seed, player)
		if err != nil {
			t.Fatal(err)
		}
		s.Begin(2)
		for i := range uint64(500) {
			all = append(all, arrival{s.Due(i), s.Size(i)})
		}
		return all
	}
	if !slices.Equal(list(3, 1), list(3, 1)) {
		t.Error("a seed gives other arrivals the second time")
	}
	if slices.Equal(list(3, 1), list(3, 2)) || slices.Equal(list(3, 1), list(4, 1)) {
		t.Error("two players, or two seeds, have the same arrivals")
	}
}
