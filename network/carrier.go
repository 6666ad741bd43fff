package network

import (
	"errors"
	"fmt"
	"maps"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// A Carrier is a part that carries the packets between hosts on the span below: a tunnel or an encryption. The kinds
// of carriers share what is in this file. A carrier that brings kinds of steps is a [host.Stepper], and one that not
// every machine can build is a [Checker].
type Carrier interface {
	// Carry returns the span that it makes on the uppermost one of the lab, see [Lab.Above]. It is pure. Where it cannot
	// stand on that, the error is an [UnfitError].
	Carry(lab Lab, p part.Params) (Span, error)
}

// CarrierSteps returns the kinds of steps that the parts of a kind of carriers bring.
func CarrierSteps(parts []stack.Part) map[string]func() host.Step {
	all := map[string]func() host.Step{}
	for _, p := range parts {
		if own, ok := p.Value.(host.Stepper); ok {
			maps.Copy(all, own.Steps())
		}
	}
	return all
}

// CheckCarrier returns why the carrier of that kind cannot be built on this machine, nil if it can.
func CheckCarrier(kind string, s stack.Stack) error {
	c, _ := s.Of(kind)
	if check, ok := c.Part.Value.(Checker); ok {
		return check.Check(c.Params)
	}
	return nil
}

// RefuseCarrier returns why labs with that number of hosts cannot use the carrier of that kind. It returns "" if they
// can, or if the stack has no such carrier.
func RefuseCarrier(kind string, s stack.Stack, hosts int) string {
	c, _ := s.Of(kind)
	n, params, ok := stack.PartOf[Network](s)
	if c.Part.Value == nil || !ok {
		return ""
	}
	if hosts < 2 {
		return fmt.Sprintf("%s %s carries packets between hosts, but the lab has only one host", kind, c.Part.Name)
	}
	if crosses(n, params) && n.(Crosser).Alone(params) { //nolint:forcetypeassert // it crosses
		return fmt.Sprintf("%s %s carries packets that hosts route as nettoll has it, but network %s has programs of its "+
			"own take them to other hosts", kind, c.Part.Name, n.Describe().Name)
	}
	two := NewLab(hosts, MinMTU)
	two.Params = params
	if onUnderlay(n, two) {
		return fmt.Sprintf("%s %s carries packets that hosts route, but the containers of network %s are on the underlay "+
			"themselves", kind, c.Part.Name, n.Describe().Name)
	}
	return unfit(two, s)
}

// onUnderlay reports whether the containers of a network are on the underlay themselves: it neither serves ranges nor
// crosses.
func onUnderlay(n Network, lab Lab) bool {
	return !crosses(n, lab.Params) && len(Serves(n, lab, lab.Hosts[0])) == 0
}

// unfit returns why a carrier of the stack cannot stand where it does in such labs, whatever their MTU; "" if all can.
func unfit(lab Lab, s stack.Stack) string {
	lab.Underlay.MTU = roomy
	_, err := Compose(lab, s)
	if unfit, ok := errors.AsType[*UnfitError](err); ok {
		return unfit.Error()
	}
	return ""
}

// roomy is an MTU in bytes that leaves enough, whatever carriers add.
const roomy = 9000

// An UnfitError says why a carrier cannot stand where it does in a stack.
type UnfitError struct{ Reason string }

// Error says it.
func (e *UnfitError) Error() string { return e.Reason }
