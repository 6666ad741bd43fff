package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/host"
)

// Methods of a monitor that listens.
const (
	methodTap   = "monitor.tap"   // tapping → nothing
	methodHeard = "monitor.heard" // nothing → []host.Frames: since then
)

// tapping says what to listen for, at the links by which packets go to some addresses.
type tapping struct {
	To   []netip.Addr `json:"to"`
	Mark []byte       `json:"mark"`
}

// tap begins to listen.
func (m *monitor) tap(t tapping) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var links []string
	for _, to := range t.To {
		next, err := m.links.Next(netip.Addr{}, to)
		if err != nil {
			return err
		}
		if !slices.Contains(links, next.Link) {
			links = append(links, next.Link)
		}
	}
	if m.listening != nil {
		_, _ = m.listening.End() // nobody has asked for it
		m.listening = nil
	}
	var err error
	m.listening, err = host.Tap{Links: links, Mark: t.Mark}.Listen()
	return err
}

// heard ends that.
func (m *monitor) heard() ([]host.Frames, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listening == nil {
		return nil, errors.New("nothing was listened for")
	}
	list, err := m.listening.End()
	m.listening = nil
	return list, err
}

// Tap implements [deploy.Tapped]. Each node listens at its link to the other nodes.
func (l *lab) Tap(ctx context.Context, mark []byte) (bool, error) {
	d := l.deployment
	if !d.Taps || len(l.pods) < 2 {
		return false, nil
	}
	return true, l.eachNode(ctx, func(i int, m *running) error {
		t := tapping{Mark: mark}
		for k := range l.pods {
			for _, a := range []netip.Addr{d.nodes[k].ipv4, d.nodes[k].ipv6} {
				if k != i && a.IsValid() {
					t.To = append(t.To, a)
				}
			}
		}
		return m.Call(ctx, methodTap, t, nil)
	})
}

// Heard implements [deploy.Tapped].
func (l *lab) Heard(ctx context.Context) ([]deploy.Heard, error) {
	list := make([]deploy.Heard, len(l.pods))
	return list, l.eachNode(ctx, func(i int, m *running) error {
		list[i].Host, list[i].Machine = l.spec.Net.Hosts[i].Name(), l.deployment.machine(i)
		return m.Call(ctx, methodHeard, nil, &list[i].Frames)
	})
}

// eachNode calls a function for the monitors of all nodes of the lab at the same time.
func (l *lab) eachNode(ctx context.Context, f func(i int, m *running) error) error {
	errs := make([]error, len(l.pods))
	var group sync.WaitGroup
	for i := range l.pods {
		group.Go(func() {
			if m := l.deployment.monitored(ctx, i); m != nil {
				errs[i] = f(i, m)
			} else {
				errs[i] = fmt.Errorf("node %s has no monitor any more", l.deployment.nodes[i].name)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// Encrypted implements [deploy.Tapped]: it says what the settings of the cluster say. Pods that share the network of
// their node send as that does, and a second interface as its network does.
func (l *lab) Encrypted() string {
	said, _ := l.deployment.cluster[podEncryption].(string)
	if l.shares || l.attach != "" || said == "" || strings.HasPrefix(said, off) ||
		strings.Contains(said, " for ") { // of one family only
		return ""
	}
	return said
}
