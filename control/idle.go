package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/measure"
)

const (
	// idleWatch is how long the programs of labs are watched after set-up, once in a run. Most of them do something each
	// second if they do anything.
	idleWatch = time.Second
	// IdleLimit is how much of a core the programs of a lab may use without traffic before the reader must know. They take
	// it from cells of all labs.
	IdleLimit = 0.002
	// idleNamed is the least share of a core that a program is named for.
	idleNamed = IdleLimit / 10
)

// idleUse is what a program uses without traffic.
type idleUse struct {
	host, name string
	cores      float64
}

// idle watches the programs of all labs at the same time, before there is any traffic.
func (s *scheduler) idle(ctx context.Context, g *generation) error {
	before := map[*lab][]deploy.Use{}
	for _, l := range g.labs {
		if l == nil {
			continue
		}
		used, err := l.use(ctx)
		if err != nil {
			return fmt.Errorf("lab %s: %w", l.ID, err)
		}
		if len(used) > 0 {
			before[l] = used
		}
	}
	if len(before) == 0 {
		return nil
	}
	began := clock.Now()
	select {
	case <-time.After(idleWatch):
	case <-ctx.Done():
		return nil // whoever measures next sees that
	}
	for _, l := range g.labs {
		if l == nil || before[l] == nil {
			continue
		}
		after, err := l.use(ctx)
		if err != nil {
			return fmt.Errorf("lab %s: %w", l.ID, err)
		}
		l.idle = idled(before[l], after, time.Duration(clock.Now()-began))
		if text := idleDoubt(l.idle); text != "" {
			s.records.warn(measure.Warning{Lab: l.ID, Text: text})
		}
	}
	return nil
}

// use asks the lab what its programs have used so far, none if it cannot say.
func (l *lab) use(ctx context.Context) ([]deploy.Use, error) {
	u, ok := l.stands.(deploy.Used)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return u.Use(ctx)
}

// idled returns what programs have used between two looks. One that has died meanwhile is left out: others notice that.
func idled(before, after []deploy.Use, took time.Duration) []idleUse {
	list := []idleUse{}
	for _, a := range after {
		i := slices.IndexFunc(before, func(b deploy.Use) bool { return b.Host == a.Host && b.Name == a.Name })
		if i >= 0 && took > 0 {
			list = append(list, idleUse{a.Host, a.Name, float64(max(0, a.CPU-before[i].CPU)) / float64(took)})
		}
	}
	return list
}

// idleCores is what all of them use together.
func idleCores(list []idleUse) float64 {
	sum := 0.0
	for _, u := range list {
		sum += u.cores
	}
	return sum
}

// idleDoubt says that programs use too much without traffic, and what to do; "" if they do not.
func idleDoubt(list []idleUse) string {
	sum := idleCores(list)
	if sum <= IdleLimit {
		return ""
	}
	var named []string
	for _, u := range slices.SortedStableFunc(slices.Values(list), func(a, b idleUse) int {
		return cmp.Compare(b.cores, a.cores)
	}) {
		if u.cores > idleNamed && len(named) < 3 {
			named = append(named, fmt.Sprintf("%s on %s %.2g %%", u.name, u.host, 100*u.cores))
		}
	}
	return fmt.Sprintf("without traffic, programs of this lab use %.2g %% of a core (%s), which cells of other labs lose "+
		"too; measure it in a run of its own, beside its baseline", 100*sum, strings.Join(named, ", "))
}
