package workload

import (
	"fmt"
	"math/rand/v2"
)

// MostServices is the largest number of services.
const MostServices = 10000

// Service returns the name of a service in a cluster, with the dot of the root at its end. All names have the same
// length.
func Service(number int) string {
	return fmt.Sprintf("svc-%04d.default.svc.cluster.local.", number)
}

// Services returns the numbers of n services in the order in which a pair, or a program for it, queries them: the seed
// determines it.
func Services(n int, seed uint64) []int { return rand.New(rand.NewPCG(seed, 'd')).Perm(n) }
