package tunnel

import "github.com/nettoll/nettoll/stack"

// Kind is the kind of parts that carry packets between hosts.
type Kind struct{}

// Describe says what the kind is.
func (Kind) Describe() stack.Description {
	return stack.Description{
		Name: "tunnel", Plural: "tunnels", Summary: "Carries packets between hosts.", Sign: "+", Default: stack.None,
	}
}

// Parts lists none: every stack has direct routes between hosts.
func (Kind) Parts() []stack.Part { return nil }
