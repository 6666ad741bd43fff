package encryptiontest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
	"github.com/nettoll/nettoll/stack"
)

// size is the payload of exchanged datagrams, in bytes.
const size = 256

// Forged attacks a lab of two hosts from its underlay, with packets of IPv4: frames that were changed, repeated and
// made up must not be delivered, and those that they are made of must be. More are attacks that are made besides.
func Forged(t testing.TB, n network.Network, between stack.Stack, more ...attack.Attack) error {
	attacks := append([]attack.Attack{
		wire.Flip, wire.Replay, wire.Reorder, wire.Stranger, wire.Peer, wire.Weaker,
	}, more...)
	target, results, err := Attacked(t, n, between, attacks...)
	if err != nil {
		return err
	}
	var errs []error
	if !target.Guards.Authentic {
		errs = append(errs, errors.New("it does not claim to drop what was changed"))
	}
	for _, r := range results {
		if r.Attack == wire.Weaker && r.Verdict == attack.NotTried && target.Settled != "" && r.Why == target.Settled {
			continue
		}
		if r.Claimed && r.Verdict != attack.Withstood {
			errs = append(errs, fmt.Errorf("%s: %s, %q %s", r.Attack, r.Verdict, r.Lab[0].Holes, r.Why))
		}
	}
	return errors.Join(errs...)
}

// Attacked builds a lab of two hosts, makes attacks on it from its underlay with packets of IPv4, and judges them.
func Attacked(t testing.TB, n network.Network, between stack.Stack, attacks ...attack.Attack) (
	target wire.Target, results []attack.Result, err error,
) {
	lab, err := network.Compose(networktest.Lab(2, 1), between)
	if err != nil {
		return target, nil, err
	}
	b, err := networktest.MakeBed(t, n, lab)
	if err != nil {
		return target, nil, err
	}
	defer func() { err = errors.Join(err, b.Undo()) }()
	if err := errors.Join(b.Apply(t), b.Verify(t)); err != nil {
		return target, nil, err
	}
	if err := b.Exchange("ipv4", size); err != nil {
		return target, nil, err
	}
	target = Target(b)
	out, err := wire.Run(t.Context(), target, attacks)
	if err != nil {
		return target, nil, err
	}
	return target, target.Judge(attacks, out, nil), b.Verify(t)
}

// Target is a lab of two hosts, each with one container, as one that is attacked from its underlay.
func Target(b *networktest.Bed) wire.Target {
	g := b.Lab.Guards()
	t := wire.Target{
		Lab:     proof.Lab{MTU: b.Lab.MTU, Families: []string{"ipv4"}, Pairs: []proof.Pair{{Source: "src0", Sink: "snk0"}}},
		Guards:  wire.Guards{Hidden: b.Lab.Hidden(), Authentic: g.Authentic, Once: g.Once, Exclusive: g.Exclusive},
		Claims:  g.Claims,
		Ignored: g.Ignored, Hellos: g.Hellos, Offers: g.Offers, Settled: g.Settled,
		Open: func(host int, namespace string) (*os.File, error) {
			m := b.Underlay
			if host < len(b.Hosts) {
				m = b.Hosts[host]
			}
			return m.Kernel.Open(namespace)
		},
	}
	const port = 20001
	for i, name := range []string{"src0", "snk0"} {
		e := b.Ends[i][0]
		t.Hosts = append(t.Hosts, proof.Host{Name: b.Lab.Hosts[i].Name(), Containers: []proof.Container{{
			Name: name, Namespace: e.Namespace, Link: e.Link, Inner: e.Inner, IPv4: e.Bind("ipv4"), IPv6: e.Bind("ipv6"),
			PublicIPv4: e.Public("ipv4"), PublicIPv6: e.Public("ipv6"), First: port, Last: port,
		}}})
	}
	return t
}
